"""The service of `cluster.enable` on this machine: started and stopped with its cluster."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from sparkfleet.cli.context import resolve_context
from sparkfleet.cli.options import Options
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.commands import quote
from sparkfleet.errors import SparkfleetError, UsageError
from sparkfleet.launch.watching import unit

# seconds for a command: any stop, including those of `restart` and `disable --now`, may have to
# roll back a relaunch, for which the unit has TimeoutStopSec
LIMIT = 200.0
RUNTIME = "XDG_RUNTIME_DIR"  # by which `systemctl --user` finds the manager of this user
MANAGER = "systemd/private"  # its socket there
MANAGER_LIMIT = 30.0  # seconds for its start
INTERVAL = 0.05  # seconds between two looks
CHECK_SYSTEMD = "check that systemd is running and that you may manage units: systemctl status"


def set_watch_service(options: Options, verb: str) -> None:
    """Start or stop the service of the cluster, where this machine has one; a failure is a line.

    It is stopped first, so that a relaunch cannot hold the lock that `cluster.down` needs.
    """
    if options.check or options.list_tasks or options.list_hosts:
        return
    try:
        cluster = resolve_context(options, needs_recipe=False).cluster.name
    except SparkfleetError:
        return  # the run itself reports it
    name = unit.name_watch_unit(cluster)
    is_system = (unit.SYSTEM_FOLDER / name).exists()
    if not is_system and not (Path.home() / unit.USER_FOLDER / name).exists():
        return
    command = ("systemctl", *(() if is_system else ("--user",)), verb, name)
    try:
        run_system_command(command, sudo=is_system and os.getuid() != unit.ROOT)
        line = f"{name}: {verb}"
    except UsageError as error:
        line = f"{name}: {error.message}"
    if not options.json:
        print_lines(line)


def run_system_command(command: Sequence[str], *, sudo: bool, text: str = "") -> None:
    """Run a command; raises UsageError with what it printed.

    It sets XDG_RUNTIME_DIR, which cron jobs and shells of `su` or `sudo -u` lack or inherit from
    another user.
    """
    argv = ["sudo", "-n", *command] if sudo else list(command)
    environment = {**os.environ, RUNTIME: _find_runtime_folder()}
    try:
        done = subprocess.run(
            argv,
            input=text,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{quote(argv)} could not be run: {error}", hint=CHECK_SYSTEMD) from error
    if done.returncode:
        raise UsageError(
            f"{quote(argv)} exited with status {done.returncode}: {done.stderr.strip()}",
            hint=CHECK_SYSTEMD,
        )
    if tuple(command[:2]) == unit.LINGER:
        _wait_for_manager()


def _find_runtime_folder() -> str:
    """Return the runtime folder of this user; `su` keeps the variable of the user who typed it."""
    given = os.environ.get(RUNTIME, "")
    return given if os.access(given, os.W_OK) else f"/run/user/{os.getuid()}"


def _wait_for_manager() -> None:
    """Wait until the user's systemd manager listens; logind starts it after `enable-linger`.

    If it does not start, the command that needs it reports that.
    """
    socket = Path(_find_runtime_folder(), MANAGER)
    deadline = time.monotonic() + MANAGER_LIMIT
    while not socket.exists() and time.monotonic() < deadline:
        time.sleep(INTERVAL)
