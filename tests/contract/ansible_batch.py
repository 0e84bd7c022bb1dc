"""Runs the pinned ``ansible-inventory`` over many inventories, importing it once.

The command takes 1.3 s a call, nearly all of it imports; here each call is a fork of one process
that has them. Request on stdin: a JSON object of name to `sources` and `patterns`; answer on
stdout: name to what Ansible lists, draws and selects; null is a failure of it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible.cli.inventory import InventoryCLI
from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader

QUIET = os.open(os.devnull, os.O_WRONLY)


def command(sources: list[str], action: str) -> str | None:
    """Return what ``ansible-inventory`` prints for `action`."""
    inventory = [part for source in sources for part in ("-i", source)]
    with tempfile.NamedTemporaryFile() as output:
        arguments = ["ansible-inventory", *inventory, action, "--output", output.name]
        if in_child(lambda: InventoryCLI(arguments).run()) != 0:
            return None
        return Path(output.name).read_text(encoding="utf-8")


def in_child(work: Callable[[], object]) -> int:
    """Run `work` in a fork of this process, quietly, and return its exit status."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.dup2(QUIET, 1)
    os.dup2(QUIET, 2)
    try:
        work()
    except SystemExit as end:
        os._exit(0 if end.code in (0, None) else 1)
    finally:
        os._exit(1)


def selected(sources: list[str], pattern: str) -> list[str] | None:
    """Return the names that `pattern` selects."""
    manager = InventoryManager(loader=DataLoader(), sources=sources)
    try:
        return [host.name for host in manager.get_hosts(pattern)]
    except AnsibleError:
        return None


def answer(sources: list[str], actions: list[str], patterns: list[str]) -> dict[str, Any]:
    """Return what Ansible says about one inventory: the text or JSON of every action."""
    said: dict[str, Any] = {action: command(sources, action) for action in actions}
    if text := said.get("--list"):
        said["--list"] = json.loads(text)
    return said | {"patterns": {pattern: selected(sources, pattern) for pattern in patterns}}


def main() -> None:
    """Answer the request."""
    requests = json.load(sys.stdin)
    json.dump({name: answer(**request) for name, request in requests.items()}, sys.stdout)


if __name__ == "__main__":
    main()
