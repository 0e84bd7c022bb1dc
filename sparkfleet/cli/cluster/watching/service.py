"""The service of `cluster.enable` on this machine: started and stopped with its cluster."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from sparkfleet.cli.context import resolve_context
from sparkfleet.cli.options import Options
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.commands import quote
from sparkfleet.errors import SparkfleetError, UsageError
from sparkfleet.launch.watching import unit

LIMIT = 60.0  # s for a command; a restart waits for nothing
STOP_LIMIT = 200.0  # s for a stop, which may roll a relaunch back


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
        run_system_command(command, sudo=is_system and os.getuid() != unit.ROOT, limit=STOP_LIMIT)
        line = f"{name}: {verb}"
    except UsageError as error:
        line = f"{name}: {error.message}"
    if not options.json:
        print_lines(line)


def run_system_command(
    command: Sequence[str], *, sudo: bool, text: str = "", limit: float = LIMIT
) -> None:
    """Run a command; raises UsageError with what it printed."""
    argv = ["sudo", "-n", *command] if sudo else list(command)
    try:
        done = subprocess.run(
            argv, input=text, capture_output=True, text=True, timeout=limit, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{quote(argv)} could not be run: {error}") from error
    if done.returncode:
        raise UsageError(
            f"{quote(argv)} exited with status {done.returncode}: {done.stderr.strip()}",
            hint="check that systemd is running and that you may manage units: systemctl status",
        )
