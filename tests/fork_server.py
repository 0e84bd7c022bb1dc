"""A process that has imported the command line and forks for each that it shall run.

`tests/commandline.py` starts it: a fork takes 20 ms where a start of Python takes 400. Its standard
input is a socket. A request is JSON (`words`, `cwd`, `env`) with three descriptors; the answer is
the exit status. A library that reads its settings when it is imported has those of the start.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import socket
import sys
import time
from typing import Any

PRELOADED = ("fabric", "httpx", "jinja2", "rich.progress", "rich.table")
# The tasks `doctor` and `init` read the words when they are defined; the others import them.
LATE = {
    f"sparkfleet.cli.{name}"
    for name in (
        *("completion", "doctor.tasks", "program", "suggestions", "tasks"),
        *("init.access", "init.answers", "init.files", "init.options", "init.project"),
        *("init.cable_search", "init.tasks"),
    )
}
LARGEST = 1 << 20  # bytes of a request


def main() -> None:
    """Serve until the test process has exited."""
    for name in PRELOADED:
        importlib.import_module(name)
    _import_tasks()
    gc.freeze()  # else each child copies what its first collection touches
    requests = socket.socket(fileno=os.dup(0))
    while True:
        text, descriptors, _, _ = socket.recv_fds(requests, LARGEST, 3)
        if not text:
            return
        child = os.fork()
        if child == 0:
            requests.close()
            _become(json.loads(text), descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)
        _, status = os.waitpid(child, 0)
        requests.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _import_tasks() -> None:
    """Import what the tasks need, without running one."""
    package = importlib.import_module("sparkfleet.cli")
    for module in pkgutil.walk_packages(package.__path__, "sparkfleet.cli."):
        if module.name not in LATE:
            importlib.import_module(module.name)
    assert not LATE & set(sys.modules)


def _become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Be the command line: its words, folder, environment and files."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.argv = [request["program"], *request["words"]]
    from sparkfleet.__main__ import main as run  # noqa: PLC0415 - as `python -m sparkfleet` does

    run()


if __name__ == "__main__":
    main()
