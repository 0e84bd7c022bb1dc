"""`cluster.enable` and `cluster.disable`: the systemd unit of `cluster.watch` on this machine."""

from __future__ import annotations

import getpass
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from sparkfleet.cli.cluster.options import EnableOptions
from sparkfleet.cli.cluster.watching.events import record_watch_event
from sparkfleet.cli.cluster.watching.install_on_head import disable_on_head, enable_on_head
from sparkfleet.cli.cluster.watching.service import run_system_command
from sparkfleet.cli.context import (
    CommandContext,
    open_cluster,
    print_run_started,
    resolve_context,
)
from sparkfleet.cli.options import Options
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.command_name import name_command
from sparkfleet.commands import quote
from sparkfleet.errors import UsageError
from sparkfleet.launch.watching.events import EventKind
from sparkfleet.launch.watching.unit import WatchMachine, WatchUnit, build_watch_unit
from sparkfleet.model import Change
from sparkfleet.report.text import format_diff

LINGER = Path("/var/lib/systemd/linger")
LOGINS = Path("/run/systemd/users")  # exists where logind runs
KEPT = ("XDG_STATE_HOME", "PYTHONPATH")  # variables that decide what the watcher runs and reads
RUNNING = Path("/run/systemd/system")  # exists where systemd is PID 1: sd_booted(3)
LIMIT = 60.0  # seconds for sudo, whose PAM may ask a directory


def enable_watch(options: EnableOptions) -> int:
    """Write and start the unit of this machine, or show it with --check; return 0."""
    if options.on_head:
        with open_cluster(options, needs_recipe=False) as session:
            return enable_on_head(session, options)
    context = resolve_context(options, needs_recipe=False)
    print_run_started(options, context)
    _check_systemd(options)
    unit = describe_watch_unit(context)
    before = read_unit_text(unit)
    _print_place(context)
    _print_unit_change(unit, before, unit.text, options)
    commands = unit.keep if before == unit.text else unit.enable
    _print_commands(commands, unit)
    if options.check:
        return 0
    if before != unit.text:
        _write_unit(unit)
    for command in commands:
        run_system_command(command, sudo=unit.sudo)
    if before != unit.text:
        _record(context, options, EventKind.ENABLED, unit)
    print_lines(
        f"cluster {context.cluster.name} is watched on this machine, also after a reboot",
        f"see what it does: {name_command('cluster.events')}, and the journal of {unit.name}",
        f"undo: {name_command('cluster.disable')}",
    )
    return 0


def disable_watch(options: EnableOptions) -> int:
    """Stop and remove the unit of this machine, or show what would be; return 0."""
    if options.on_head:
        with open_cluster(options, needs_recipe=False) as session:
            return disable_on_head(session, options)
    context = resolve_context(options, needs_recipe=False)
    print_run_started(options, context)
    unit = describe_watch_unit(context)
    before = read_unit_text(unit)
    if before is None:
        print_lines(f"{unit.path} does not exist: the watcher is not enabled on this machine")
        return 0
    _check_systemd(options)
    _print_unit_change(unit, before, None, options)
    remove = ("rm", "--", str(unit.path))
    reload = (*unit.disable[0][: unit.disable[0].index("disable")], "daemon-reload")
    commands = (*unit.disable, remove, reload)
    _print_commands(commands, unit)
    if options.check:
        return 0
    for command in commands:
        run_system_command(command, sudo=unit.sudo)
    _record(context, options, EventKind.DISABLED, unit)
    print_lines(
        f"cluster {context.cluster.name} is no longer watched from this machine; it keeps serving"
    )
    return 0


def has_unit_drift(options: Options) -> bool:
    """Return whether the unit of this machine differs from what `enable_watch` would write."""
    unit = describe_watch_unit(resolve_context(options, needs_recipe=False))
    before = read_unit_text(unit)
    if before is None or before == unit.text:
        return False
    print_lines(
        f"{unit.path} differs from the inventory: {name_command('cluster.enable')} --check --diff"
    )
    return True


def describe_watch_unit(context: CommandContext) -> WatchUnit:
    """Return the unit that would watch the cluster from this machine, in this folder."""
    files = [word for file in context.files for word in ("--inventory", str(Path(file).absolute()))]
    name = context.cluster.name
    argv = (sys.executable, "-m", "sparkfleet", "cluster.watch", *files, "--cluster", name)
    return build_watch_unit(
        name,
        read_machine(),
        argv=argv,
        folder=Path.cwd(),
        environment={key: os.environ[key] for key in KEPT if os.environ.get(key)},
    )


def read_machine() -> WatchMachine:
    """Return the user and their rights on this machine; asks sudo without a password."""
    user = getpass.getuser()
    return WatchMachine(
        user=user,
        uid=os.getuid(),
        home=Path.home(),
        sudo=not _is_root() and _ends_well(("sudo", "-n", "true")),
        lingers=(LINGER / user).exists() or not LOGINS.exists(),
    )


def read_unit_text(unit: WatchUnit) -> str | None:
    """Return the unit file of this machine, None if it does not exist."""
    try:
        return unit.path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None


def _record(context: CommandContext, options: Options, kind: EventKind, unit: WatchUnit) -> None:
    record_watch_event(context, options, kind, f"{unit.path} on this machine")


def _print_place(context: CommandContext) -> None:
    """Print that the watcher depends on this machine, where that is not the head."""
    head = context.cluster.head
    if head.get("ansible_connection") != "local":
        print_lines(
            f"this machine watches the cluster, so it must stay on; to watch it from the head, "
            f"{head.name}: {name_command('cluster.enable')} --on-head"
        )


def _print_unit_change(
    unit: WatchUnit, before: str | None, after: str | None, options: Options
) -> None:
    verb = "remove" if after is None else "unchanged:" if before == after else "write"
    print_lines(f"{verb} {unit.path}")
    if options.diff:
        change = Change(summary=verb, path=str(unit.path), before=before, after=after)
        print_lines(*(line for line, _ in format_diff(change)))


def _print_commands(commands: Sequence[Sequence[str]], unit: WatchUnit) -> None:
    sudo = ("sudo",) if unit.sudo else ()
    print_lines(*(f"run {quote([*sudo, *command])}" for command in commands))


def _write_unit(unit: WatchUnit) -> None:
    if unit.sudo:
        run_system_command(
            ("install", "-m", "0644", "/dev/stdin", str(unit.path)), sudo=True, text=unit.text
        )
        return
    unit.path.parent.mkdir(parents=True, exist_ok=True)
    unit.path.write_text(unit.text, encoding="utf-8")


def _check_systemd(options: Options) -> None:
    """Raise UsageError where no systemd runs, before anything is shown as done; --check says so."""
    if RUNNING.exists():
        return
    text = "systemd is not running on this machine"
    if not options.check:
        hint = f"have another supervisor run: {name_command('cluster.watch')}"
        raise UsageError(text, hint=hint)
    print_lines(f"{text}: without --check, {options.task} would fail here")


def _ends_well(argv: Sequence[str]) -> bool:
    try:
        done = subprocess.run(argv, capture_output=True, timeout=LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _is_root() -> bool:
    return os.getuid() == 0
