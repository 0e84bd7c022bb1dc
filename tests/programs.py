"""Programs for hosts as forks of `tests/program_server.py`, on hosts that are this machine."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from sparkfleet.commands import ISOLATED_PYTHON, Command
from sparkfleet.remote.channel import Channel
from sparkfleet.remote.local import LocalChannel, LocalConnection
from tests.forking import ENVIRONMENT, ForkedProcess, ForkServer

SERVER = Path(__file__).parent / "program_server.py"
AT_START = ("LD_", "LC_", "LANG", "TZ")  # variables that a process reads when it is started
_start_process = LocalConnection._start


def start_program(connection: LocalConnection, command: Command) -> Channel:
    """Start a command of `connection`, in a fork if it is the Python of the tests, isolated."""
    env = {**os.environ, **command.env}
    home = os.path.expanduser("~")  # noqa: PTH111 - as the connection does
    python = shutil.which(command.argv[0], path=env.get("PATH"))
    if (
        command.argv[:-1] != (*ISOLATED_PYTHON, "-c")
        or python is None
        or not Path(python).samefile(sys.executable)
        or not Path(home).is_dir()
        or _select_start(env) != _select_start(ENVIRONMENT)
    ):
        return _start_process(connection, command)
    process: Any = _fork_program({"text": command.argv[-1], "env": env, "cwd": home})
    return LocalChannel(process)


def _select_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(AT_START)}


def _fork_program(request: dict[str, Any]) -> ForkedProcess:
    pipes = [os.pipe() for _ in range(3)]
    theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
    try:
        process = _start_server().start(request, theirs)
    finally:
        for descriptor in theirs:
            os.close(descriptor)
    process.stdin = os.fdopen(pipes[0][1], "wb")
    process.stdout = os.fdopen(pipes[1][0], "rb")
    process.stderr = os.fdopen(pipes[2][0], "rb")
    return process


@cache
def _start_server() -> ForkServer:
    server = ForkServer.launch(*ISOLATED_PYTHON[1:], str(SERVER))
    atexit.register(server.close)
    return server
