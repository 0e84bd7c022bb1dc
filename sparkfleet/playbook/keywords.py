"""The keywords of plays, blocks and tasks, and what to write instead of Ansible's others."""

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

LOOPS = "playbooks here have no loops: write the task twice"
ROLES = "playbooks here have no roles: write the tasks out"
HANDLERS = "playbooks here have no handlers: use register and `when: x is changed`"
COMMAND = "there is no such action; write it as `command`, with become: true if it needs root"

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
    "include_tasks": "write the tasks out; cluster_up is the one file of tasks that can be named",
    "import_tasks": "write the tasks out; cluster_up is the one file of tasks that can be named",
    "import_playbook": "run the files one after the other",
    "pre_tasks": "put them first in tasks",
    "post_tasks": "put them last in tasks",
    "vars_files": "put them into group_vars/ or host_vars/ beside the inventory",
    "vars_prompt": "ask with --set NAME=VALUE",
    "changed_when": "use creates or removes; a command that ran counts as a change",
    "failed_when": "use register, and `assert` in the next task",
    "ignore_errors": "use block and rescue",
    "ignore_unreachable": "write any_errors_fatal: false for the play, or leave the host out",
    "environment": "write: command: env NAME=VALUE ...",
    "serial": "every task runs on all hosts at once; choose some with --limit",
    "strategy": "every task runs on all hosts at once",
    "throttle": "use --forks",
    "delegate_to": "write a play for that host",
    "local_action": "write a play with hosts: localhost",
    "connection": "set ansible_connection in the inventory",
    "remote_user": "set ansible_user in the inventory",
    "become_user": "set ansible_become_user in the inventory or in the play's vars",
    "become_method": "sudo is the only one",
    "check_mode": "use --check",
    "diff": "use --diff",
    "async": "start it with setsid, and wait with wait_tcp or wait_http",
    "poll": "start it with setsid, and wait with wait_tcp or wait_http",
    "timeout": "give it to the action: command: {cmd: ..., timeout: 60}",
    "vars": "put them into the play's vars, or use `set`",
    "apt": COMMAND,
    "dnf": COMMAND,
    "fail": "use `assert`",
    "fetch": "use command: cat, and register",
    "get_url": COMMAND,
    "git": COMMAND,
    "include_vars": "put them into group_vars/ or host_vars/ beside the inventory",
    "lineinfile": "use `template` for the whole file",
    "blockinfile": "use `template` for the whole file",
    "meta": "there is no such action",
    "package": COMMAND,
    "ping": "use gather_facts, or command: true",
    "pip": COMMAND,
    "raw": "use `shell`",
    "reboot": COMMAND,
    "script": "use `copy`, then `command`",
    "service": COMMAND,
    "set_fact": "here it is `set`",
    "setup": "here it is gather_facts",
    "slurp": "use command: cat, and register",
    "stat": "use command: test -e PATH, with block and rescue; or creates",
    "synchronize": "weights go with stage_weights, small files with copy",
    "systemd": COMMAND,
    "systemd_service": COMMAND,
    "uri": "here it is wait_http",
    "wait_for": "here it is wait_tcp",
}
