"""The keywords of plays, blocks and tasks, and replacements for Ansible's other keywords."""

from __future__ import annotations

from collections.abc import Mapping

PLAY_KEYS = (
    "name", "hosts", "vars", "tags", "become", "gather_facts", "any_errors_fatal", "tasks",
)  # fmt: skip
BLOCK_KEYS = ("name", "when", "tags", "become", "block", "rescue", "always")
TASK_KEYS = (
    "name", "when", "tags", "become", "register", "retries", "delay", "until", "no_log",
    "run_once", "args",
)  # fmt: skip
INCLUDED_KEYS = ("name", "when", "tags")
FQCN = "ansible.builtin."

LOOPS = "loops are not supported: write one task for each item"
ROLES = "roles are not supported: write the tasks in the play"
HANDLERS = "handlers are not supported: use register and `when: x is changed`"
COMMAND = "not supported; use `command`, with become: true if it needs root"

ANSIBLE_ONLY: Mapping[str, str] = {
    "loop": LOOPS,
    "loop_control": LOOPS,
    "with_dict": LOOPS,
    "with_items": LOOPS,
    "notify": HANDLERS,
    "handlers": HANDLERS,
    "listen": HANDLERS,
    "roles": ROLES,
    "include_role": ROLES,
    "import_role": ROLES,
    "include_tasks": "write the tasks in the play; only cluster_up can be included",
    "import_tasks": "write the tasks in the play; only cluster_up can be included",
    "import_playbook": "run the files one after the other",
    "pre_tasks": "put them first in tasks",
    "post_tasks": "put them last in tasks",
    "vars_files": "put them into group_vars/ or host_vars/ next to the inventory",
    "vars_prompt": "use --set NAME=VALUE",
    "changed_when": "use creates or removes; a command that runs counts as a change",
    "failed_when": "use register, and `assert` in the next task",
    "ignore_errors": "use block and rescue",
    "ignore_unreachable": "set any_errors_fatal: false for the play, or leave the host out",
    "environment": "write: command: env NAME=VALUE ...",
    "serial": "every task runs on all hosts at once; select some with --limit",
    "strategy": "every task runs on all hosts at once",
    "throttle": "use --forks",
    "delegate_to": "write a play for that host",
    "local_action": "write a play with hosts: localhost",
    "connection": "set ansible_connection in the inventory",
    "remote_user": "set ansible_user in the inventory",
    "become_user": "set ansible_become_user in the inventory or in the play's vars",
    "become_method": "only sudo is supported",
    "check_mode": "use --check",
    "diff": "use --diff",
    "async": "start it with setsid, then use wait_tcp or wait_http",
    "poll": "start it with setsid, then use wait_tcp or wait_http",
    "timeout": "pass it to the action: command: {cmd: ..., timeout: 60}",
    "vars": "put them into the play's vars, or use `set`",
    "apt": COMMAND,
    "dnf": COMMAND,
    "fail": "use `assert`",
    "fetch": "use command: cat, and register",
    "get_url": COMMAND,
    "git": COMMAND,
    "include_vars": "put them into group_vars/ or host_vars/ next to the inventory",
    "lineinfile": "use `template` for the whole file",
    "blockinfile": "use `template` for the whole file",
    "meta": "not supported",
    "package": COMMAND,
    "ping": "use gather_facts, or command: true",
    "pip": COMMAND,
    "raw": "use `shell`",
    "reboot": COMMAND,
    "script": "use `copy`, then `command`",
    "service": COMMAND,
    "set_fact": "use `set`",
    "setup": "use gather_facts",
    "slurp": "use command: cat, and register",
    "stat": "use command: test -e PATH, with block and rescue; or creates",
    "synchronize": "use stage_weights for weights, copy for small files",
    "systemd": COMMAND,
    "systemd_service": COMMAND,
    "uri": "use wait_http",
    "wait_for": "use wait_tcp",
}
