"""The files of a new project, as text; pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sparkfleet.cli.init.answers import ProjectAnswers
from sparkfleet.cli.init.findings import Findings
from sparkfleet.command_name import name_command
from sparkfleet.model import Host

INVENTORY = "inventories/local.yml"
CONNECTION = ("ansible_connection", "ansible_host", "ansible_port", "ansible_user")
PLAIN = re.compile(r"[A-Za-z][\w./@-]*", re.ASCII)  # text that needs no quotes in YAML
WORDS = frozenset(["y", "yes", "n", "no", "on", "off", "true", "false", "null"])
KEY_FILE = "api-key"
IGNORED = ".gitignore"
NOTES = {
    "vllm_env": "clients send this key",
    "ansible_user": "the login user; it must accept your SSH key",
    "vllm_recipe": "what to serve when no --recipe is given",
    "link_topology": "how they are cabled, as found; checked before each start",
    "link_mtu": "bytes, as found; checked on every fabric interface",
}
CONFIG = f"""\
# Settings of this project; options on the command line override them.
inventory: {INVENTORY}
"""
TASKS = '''\
"""The tasks of sparkfleet for `invoke` in this folder."""

import sys
from pathlib import PurePath

from sparkfleet.__main__ import main
from sparkfleet.cli.tasks import namespace  # noqa: F401 - invoke looks for this name

program = PurePath(sys.argv[0])
if program.name in ("invoke", "inv") or program.parts[-2:] == ("invoke", "__main__.py"):
    main("invoke")
'''
PLAYBOOK = """\
# An example of a playbook; it changes nothing. Run it:
#   COMMAND playbooks/example.yml
- name: Look at the Sparks
  hosts: sparks
  tasks:
    - name: Read the free memory
      command: free -h
      register: memory

    - name: Show it
      debug: {var: memory.stdout_lines}
"""


def format_files(
    answers: ProjectAnswers, findings: Findings, key_file: Path | None = None
) -> dict[str, str]:
    """Return the text of each file by its path in the project; `key_file` holds the API key."""
    return {
        INVENTORY: "\n".join([*format_inventory(answers, findings, key_file), ""]),
        **({IGNORED: f"{KEY_FILE}\n"} if key_file else {}),
        "sparkfleet.yaml": CONFIG,
        "tasks.py": TASKS,
        "playbooks/example.yml": PLAYBOOK.replace("COMMAND", name_command("playbook.run")),
    }


def format_inventory(
    answers: ProjectAnswers, findings: Findings, key_file: Path | None = None
) -> Iterator[str]:
    """Yield the lines of the inventory: only what differs from the defaults."""
    hosts = answers.hosts
    users = {host.get("ansible_user") for host in hosts}
    shared = {"ansible_user": users.pop()} if len(users) == 1 else {}
    yield f"# Written by `{name_command('init')}`. docs/inventory.md explains every variable."
    yield "sparks:"
    yield "  hosts:"
    for host in hosts:
        head = host is hosts[0] and len(hosts) > 1
        yield _add_note(f"    {host.name}:", "the head: it answers requests" if head else "")
        own = {**_list_connection(host, shared), **findings.by_host.get(host.name, {})}
        yield from (f"      {name}: {_format_value(value)}" for name, value in own.items())
    yield "  vars:"
    key = {"vllm_env": {"VLLM_API_KEY": {"from_file": str(key_file)}}} if key_file else {}
    common = {**shared, "vllm_recipe": answers.recipe, **key, **findings.common}
    for name, value in common.items():
        if value is not None:
            yield _add_note(f"    {name}: {_format_value(value)}", NOTES.get(name, ""))


def _list_connection(host: Host, shared: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: host.get(name)
        for name in CONNECTION
        if host.get(name) is not None and name not in shared
    }


def _add_note(line: str, note: str) -> str:
    return f"{line:<34} # {note}" if note else line


def _format_value(value: Any) -> str:
    """Return a value as YAML; text that YAML could read as something else is quoted."""
    if isinstance(value, Mapping):
        pairs = (f"{name}: {_format_value(item)}" for name, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_format_value, value))}]"
    text = str(value)
    plain = not isinstance(value, str) or (PLAIN.fullmatch(text) and text.lower() not in WORDS)
    return text if plain else json.dumps(text)
