"""An upper limit for the clock of a host's GPU, and its undo: `nvidia-smi -lgc` and `-rgc`.

For a Spark that powers off under load: ``sudo nvidia-smi -lgc 200,2150``, which lasts until the
next boot (https://github.com/eugr/spark-vllm-docker, known issues). Another report: 91 to 65
degrees with ``-lgc 0,2100`` (https://github.com/NVIDIA/open-gpu-kernel-modules/issues/1358).
nvidia-smi does not show a limit, so the host keeps a record of the last one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from sparkfleet.commands import Command, quote
from sparkfleet.errors import CommandError
from sparkfleet.launch.host.processes import read_file, write_files
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.sudo import Sudo, run_with_sudo
from sparkfleet.values import convert_integer, convert_string, parse_json

RECORD = "gpu-clock.json"  # in the folder of the cluster
LOWEST = 200  # MHz, as published
MAX_CLOCK = 100_000  # MHz; no GPU is near
BOOT = Command(argv=("cat", "/proc/sys/kernel/random/boot_id"))
LIFT = ("nvidia-smi", "-rgc")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockLimit:
    """A recorded limit, in MHz; it is `in_force` unless the host was restarted since."""

    highest: int
    in_force: bool


def build_limit_command(highest: int) -> tuple[str, ...]:
    """Return the command that limits the clock to `highest` MHz."""
    return ("nvidia-smi", "-lgc", f"{LOWEST},{highest}")


def read_clock_limit(connection: Connection, location: Mapping[str, str]) -> ClockLimit | None:
    """Return the limit that sparkfleet set on a host last, None if it set none."""
    text = read_file(connection, location, RECORD)
    if text is None:
        return None
    try:
        content = parse_json(text)
        highest = convert_integer(content["highest"], minimum=0, maximum=MAX_CLOCK, strict=True)
        boot = convert_string(content["boot"])
    except (ValueError, TypeError, KeyError):
        return None
    return ClockLimit(highest=highest, in_force=boot == _read_boot_id(connection))


def set_clock_limit(
    connection: Connection, location: Mapping[str, str], highest: int, *, password: str
) -> None:
    """Record and set a limit in MHz; raises CommandError if the user may not, or the GPU cannot."""
    record = json.dumps({"highest": highest, "boot": _read_boot_id(connection)}) + "\n"
    write_files(connection, location, {RECORD: record})
    try:
        _run(connection, build_limit_command(highest), password)
    except CommandError:
        write_files(connection, location, {RECORD: None})
        raise


def lift_clock_limit(connection: Connection, location: Mapping[str, str], *, password: str) -> None:
    """Lift the limit and remove its record; raises CommandError if the user may not."""
    _run(connection, LIFT, password)
    write_files(connection, location, {RECORD: None})


def forget_clock_limit(connection: Connection, location: Mapping[str, str]) -> None:
    """Remove the record of a limit that ended with an earlier boot."""
    write_files(connection, location, {RECORD: None})


def _read_boot_id(connection: Connection) -> str:
    return connection.run(BOOT).text.strip()


def _run(connection: Connection, argv: tuple[str, ...], password: str) -> None:
    result = run_with_sudo(connection, Command(argv=argv), Sudo(user="root", password=password))
    if result.returncode:
        words = (result.text.strip() or result.stderr.strip()).splitlines()
        raise CommandError(
            f"sudo {quote(argv)}: {words[0] if words else f'status {result.returncode}'}",
            host=connection.host.name,
            hint="leave gpu_clock_max out where the driver does not support it",
        )
