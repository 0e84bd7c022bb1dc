"""A process that has imported the command line and forks for each that it shall run.

`tests/commandline.py` starts it: a fork takes 20 ms where a start of Python takes 400. It has also
read the tables of vLLM's releases. A request has `door`, `words`, `cwd`, `env`, `session` and
`marks`. A library that reads its settings when it is imported has those of the start.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import pkgutil
import sys
import termios
import time
from typing import Any

from sparkfleet.vllm.releases import load_release_table
from tests.forking import serve_forks
from tests.stopping import stop_at

TABLES = ("architectures", "keys", "options", "values", "variables")  # of releases of vLLM
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


def main() -> None:
    """Serve until the test process has exited."""
    for name in PRELOADED:
        importlib.import_module(name)
    _import_tasks()
    for name in TABLES:
        load_release_table(name)
    serve_forks(_become)


def _import_tasks() -> None:
    """Import what the tasks need, without running one."""
    package = importlib.import_module("sparkfleet.cli")
    for module in pkgutil.walk_packages(package.__path__, "sparkfleet.cli."):
        if module.name not in LATE:
            importlib.import_module(module.name)
    assert not LATE & set(sys.modules)


def _become(request: dict[str, Any]) -> None:
    """Be the command line: its words, folder, environment, and terminal if it has one."""
    if request["session"]:
        os.setsid()
        if os.isatty(0):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.argv = [request["program"], *request["words"]]
    if request["marks"]:
        stop_at(request["marks"])
    if request["door"] == "invoke":
        from invoke.main import program  # noqa: PLC0415 - a command line has one door

        program.run()
        return
    from sparkfleet.__main__ import main as run  # noqa: PLC0415 - as `python -m sparkfleet` does

    run()


if __name__ == "__main__":
    main()
