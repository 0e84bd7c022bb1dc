"""Reclaimed memory and the page cache of a host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkfleet.commands import Command, quote
from sparkfleet.errors import CommandError
from sparkfleet.model import Severity, Verdict
from sparkfleet.quantities import format_memory
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.sudo import Sudo, query_with_sudo, run_with_sudo
from sparkfleet.values import (
    MAX_COUNT,
    convert_count,
    convert_flag,
    convert_integer,
    convert_mapping,
    convert_number,
)
from sparkfleet.verdicts import build_verdict

PATIENCE = 6.0  # seconds; a driver frees the memory of a process within one
DROP_TIMEOUT = 180.0  # seconds; `sync` writes out what is dirty first
DROP_REQUEST = {"do": "drop"}
DROP_COMMAND = ("sh", "-c", "/bin/sync; echo 3 > /proc/sys/vm/drop_caches")


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedMemory:
    """Memory of a host in bytes: `free` and `available`, and what each process on the GPU holds."""

    free: int
    available: int
    gpu: Mapping[str, int]

    def data(self) -> dict[str, Any]:
        """Return it as the program on the host reads it."""
        return {"free": self.free, "available": self.available, "gpu": dict(self.gpu)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReclaimedMemory:
    """Memory in bytes after ranks stopped: `held` by them on the GPU, `available` now."""

    held: int
    back: int
    available: int
    whole: bool
    waited: float

    def __str__(self) -> str:
        came = f"{format_memory(max(self.back, 0))} reclaimed in {self.waited:.0f} s"
        return f"{format_memory(self.available)} available, {came}"


def inspect_memory(connection: Connection) -> UsedMemory:
    """Return available memory and the GPU memory of each process, for `wait_for_memory`."""
    return connection.query("host/memory", {"do": "look"}, _parse_used_memory)


def _parse_used_memory(answer: Mapping[str, Any]) -> UsedMemory:
    return UsedMemory(
        free=convert_count(answer["free"]),
        available=convert_count(answer["available"]),
        gpu={pid: convert_count(size) for pid, size in convert_mapping(answer["gpu"]).items()},
    )


def wait_for_memory(connection: Connection, before: UsedMemory) -> ReclaimedMemory:
    """Wait, for a bounded time, until memory of processes stopped since `before` is free."""
    request = {"do": "settle", "before": before.data(), "patience": PATIENCE}
    return connection.query("host/memory", request, _parse_reclaimed_memory)


def _parse_reclaimed_memory(answer: Mapping[str, Any]) -> ReclaimedMemory:
    return ReclaimedMemory(
        held=convert_count(answer["held"]),
        back=convert_integer(answer["back"], minimum=-MAX_COUNT, maximum=MAX_COUNT, strict=True),
        available=convert_count(answer["available"]),
        whole=convert_flag(answer["whole"], strict=True),
        waited=convert_number(answer["waited"], minimum=0, strict=True),
    )


def check_reclaimed_memory(host: str, reclaimed: ReclaimedMemory) -> Verdict:
    """Return whether the memory was reclaimed."""
    return build_verdict(
        Severity.OK if reclaimed.whole else Severity.WARNING,
        "host.memory_back",
        host,
        "memory",
        expected=f"the {format_memory(reclaimed.held)} that the ranks held on the GPU",
        seen=str(reclaimed),
        source="/proc/meminfo, nvidia-smi",
        fix=""
        if reclaimed.whole
        else "find its process with nvidia-smi; if there is none, reboot that host",
    )


def check_drop_caches(connection: Connection, password: str = "") -> Verdict:
    """Return whether the user may empty the page cache of a host, with `password` if needed."""
    result = connection.run(Command(argv=("sudo", "-n", "-l", *DROP_COMMAND)))
    permission = "allowed" if result.returncode == 0 else result.stderr.strip() or "not allowed"
    if password and result.returncode:
        permission = _try_sudo_password(connection, password)
    allowed = permission.startswith("allowed")
    ways = (
        "{task:hosts.prepare} --tags caches; or {task:cluster.up} --ask-become-pass; or set "
        "drop_caches: false"
    )
    return build_verdict(
        Severity.OK if allowed else Severity.ERROR,
        "host.drop_caches",
        connection.host.name,
        "drop_caches",
        expected=f"sudo without a password for: {quote(DROP_COMMAND)}",
        seen=permission,
        source="sudo -n -l",
        fix="" if allowed else ways,
    )


def _try_sudo_password(connection: Connection, password: str) -> str:
    try:
        run_with_sudo(connection, Command(argv=("true",)), Sudo(user="root", password=password))
    except CommandError as error:
        return error.message
    return "allowed with the password"


def drop_caches(connection: Connection, password: str = "") -> tuple[int, int]:
    """Empty the page cache of a host and return MemFree before and after, bytes.

    A sudo rule may allow exactly this command, so `password` is used only if that fails. Raises
    CommandError if the user may not.
    """
    try:
        return connection.query("host/memory", DROP_REQUEST, _parse_drop, timeout=DROP_TIMEOUT)
    except CommandError as error:
        if password:
            sudo = Sudo(user="root", password=password)
            return query_with_sudo(
                connection,
                "host/memory",
                DROP_REQUEST,
                _parse_drop,
                sudo=sudo,
                timeout=DROP_TIMEOUT,
            )
        raise CommandError(
            error.message,
            host=connection.host.name,
            hint="use --ask-become-pass, or run {task:hosts.prepare} --tags caches, or set "
            "drop_caches: false",
        ) from error


def _parse_drop(answer: Mapping[str, Any]) -> tuple[int, int]:
    return convert_count(answer["before"]), convert_count(answer["after"])
