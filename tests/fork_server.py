"""A process that has imported the command line and forks for each that it shall run.

`tests/commandline.py` starts it: a fork takes 20 ms where a start of Python takes 400. Its standard
input is a socket. A request is JSON (`door`, `words`, `cwd`, `env`, `session`) with four
descriptors: the three standard streams, and a socket for the PID and then the exit status. Several
commands may run at once. A library that reads its settings when it is imported has those of the
start.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import json
import os
import pkgutil
import selectors
import socket
import sys
import termios
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
    with selectors.DefaultSelector() as waiting:
        waiting.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in waiting.select():
                if key.data:
                    waiting.unregister(key.fd)
                    _send_status(key.fd, *key.data)
                    continue
                text, descriptors, _, _ = socket.recv_fds(requests, LARGEST, 4)
                if not text:
                    return
                child = os.fork()
                if child == 0:
                    waiting.close()
                    requests.close()
                    os.close(descriptors.pop())
                    _become(json.loads(text), descriptors)
                    return
                for descriptor in descriptors[:3]:
                    os.close(descriptor)
                answers = socket.socket(fileno=descriptors[3])
                answers.sendall(f"{child}\n".encode())
                waiting.register(os.pidfd_open(child), selectors.EVENT_READ, (child, answers))


def _send_status(pidfd: int, child: int, answers: socket.socket) -> None:
    """Send the exit status of a command that has ended."""
    os.close(pidfd)
    _, status = os.waitpid(child, 0)
    with answers:
        answers.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _import_tasks() -> None:
    """Import what the tasks need, without running one."""
    package = importlib.import_module("sparkfleet.cli")
    for module in pkgutil.walk_packages(package.__path__, "sparkfleet.cli."):
        if module.name not in LATE:
            importlib.import_module(module.name)
    assert not LATE & set(sys.modules)


def _become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Be the command line: its words, folder, environment, files, and terminal if it has one."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if request["session"]:
        os.setsid()
        if os.isatty(0):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.argv = [request["program"], *request["words"]]
    if request["door"] == "invoke":
        from invoke.main import program  # noqa: PLC0415 - a command line has one door

        program.run()
        return
    from sparkfleet.__main__ import main as run  # noqa: PLC0415 - as `python -m sparkfleet` does

    run()


if __name__ == "__main__":
    main()
