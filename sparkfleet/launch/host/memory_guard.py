"""The memory guard of a host: arm it, and read why it acted.

On unified memory a rank that uses too much memory also makes SSH unavailable: the guard kills the
ranks of its host before. It is `onhost/deployment/memory_guard.py`, independent of any connection.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkfleet.commands import build_script_command
from sparkfleet.onhost.shared import labels
from sparkfleet.quantities import format_memory
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.values import convert_count, convert_number, parse_json

FILE = labels.GUARD_RECORD
SERVING = labels.GUARD_SERVING
FIX = (
    "lower gpu-memory-utilization or max-model-len in vllm_args, or stop other processes on that "
    "host; guard_loading and guard_serving set the limits"
)
PATIENCE = 20.0  # seconds to wait for the memory of stopped processes
NAMED = 3  # processes in a reason
MAX_TIME = 1 << 40  # seconds since the epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardReason:
    """Why a guard killed the ranks: `available` bytes at `at`, s since 1970, below `limit`.

    `gpu` are lines of nvidia-smi, which may not answer on a host without free memory.
    """

    at: float
    phase: str
    available: int
    limit: int
    top: tuple[Mapping[str, Any], ...] = ()
    gpu: tuple[str, ...] = ()

    def __str__(self) -> str:
        when = time.strftime("%H:%M:%S", time.localtime(self.at))
        largest = ", ".join(
            f"{process['name']} (pid {process['pid']}) {format_memory(process['rss'])}"
            for process in self.top[:NAMED]
        )
        text = (
            f"memory guard: {format_memory(self.available)} were available at {when}, below "
            f"{format_memory(self.limit)} while {self.phase}; largest processes: {largest}"
        )
        return f"{text}; on the GPU: {'; '.join(self.gpu)}" if self.gpu else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Limits of an armed guard, and the reason if it acted."""

    serving: int
    samples: int
    reason: GuardReason | None = None


def plan_guard(settings: Settings) -> Guard | None:
    """Return the guard of a host while it serves; None with `guard: false`."""
    if not settings.value("guard"):
        return None
    return Guard(serving=settings.size("guard_serving"), samples=settings.integer("guard_samples"))


def arm_guard(
    connection: Connection, location: Mapping[str, str], settings: Settings, *, loads: bool = True
) -> int | None:
    """Arm the guard of a host and return its first sample in bytes; None with `guard: false`.

    Without `loads` the limit for serving applies from the beginning. Raises CommandError if
    available memory is already below the limit.
    """
    guard = plan_guard(settings)
    if guard is None:
        return None
    request = {
        **location,
        "loading": settings.size("guard_loading") if loads else guard.serving,
        "serving": guard.serving,
        "samples": guard.samples,
        "patience": PATIENCE,
        "ends": _build_kill_commands(location),
    }
    return connection.query(
        "deployment/memory_guard", request, lambda answer: convert_count(answer["available"])
    )


def _build_kill_commands(location: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the commands that kill the ranks: containers, then processes.

    The client of a container is a process: killing it alone would not stop the container.
    """
    request = {**location, "do": "stop", "grace": 0, "keep": True}
    programs = [
        *(["deployment/containers"] if "cli" in location else []),
        "deployment/processes",
    ]
    commands = [build_script_command(name, request) for name in programs]
    return [
        {"argv": command.argv, "stdin": base64.b64encode(command.input).decode()}
        for command in commands
    ]


def parse_guard(text: str | None) -> Guard | None:
    """Return the guard in the text of its file; None if missing, cut or of another shape."""
    try:
        record = parse_json(text or "null")
        reason = record["reason"]
        return Guard(
            serving=convert_count(record["serving"]),
            samples=convert_count(record["samples"]),
            reason=_parse_guard_reason(reason) if reason else None,
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _parse_guard_reason(record: Mapping[str, Any]) -> GuardReason:
    return GuardReason(
        at=convert_number(record["at"], minimum=0, maximum=MAX_TIME),
        phase=str(record["phase"]),
        available=convert_count(record["available"]),
        limit=convert_count(record["limit"]),
        top=tuple(
            {
                "name": str(row["name"]),
                "pid": convert_count(row["pid"]),
                "rss": convert_count(row["rss"]),
            }
            for row in record["top"]
        ),
        gpu=tuple(map(str, record["gpu"])),
    )
