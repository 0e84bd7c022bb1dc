"""Times the diagnosis of large logs, and each pattern alone: linear in size, up to 200 MB.

``python benchmarks/doctor.py [--megabytes 200]``. The logs are made of recorded ones, of lines that
nearly match, and of one endless line. A size counts CPU seconds for each MB; the largest may need
at most 1.5 times those of a quarter of it.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sparkfleet.doctor.diagnosis import diagnose_logs
from sparkfleet.doctor.events import read_entries
from sparkfleet.doctor.logs import LogBundle, LogFile
from sparkfleet.doctor.signatures import SIGNATURES

OUTPUTS = Path(__file__).parents[1] / "tests" / "outputs"
MB = 1_000_000
LIMIT = 1.5  # of the seconds for each MB at a quarter of the size
SEED = 16
PIECE = 4096  # characters; a diagnosis cuts longer lines


def recorded_log(size: int) -> str:
    """Return lines of recorded logs, each unlike the others."""
    lines = [
        line
        for path in sorted(OUTPUTS.glob("*.log"))
        for line in path.read_text(errors="replace").splitlines()
    ]
    chosen = random.Random(SEED)  # noqa: S311 - the same lines each time
    return _join(lambda: f"{chosen.choice(lines)} {chosen.random()}", size)


def near_log(size: int) -> str:
    """Return lines that have the words of a failure and are none."""
    lines = [row.near_miss for row in SIGNATURES if row.near_miss]
    chosen = random.Random(SEED)  # noqa: S311 - the same lines each time
    return _join(lambda: chosen.choice(lines) * 3, size)


def endless_log(size: int) -> str:
    """Return one line."""
    return "Error: /usr/bin/ld 0x" * (size // 21)


KINDS = {"recorded": recorded_log, "near misses": near_log, "one line": endless_log}


def _join(make: Callable[[], str], size: int) -> str:
    lines: list[str] = []
    length = 0
    while length < size:
        lines.append(make())
        length += len(lines[-1]) + 1
    return "\n".join(lines)


def measure(text: str) -> float:
    """Return the CPU seconds of a diagnosis for each MB."""
    read_entries.cache_clear()
    began = time.process_time()
    diagnose_logs(LogBundle(logs=(LogFile(name="log", host="spark", text=text),)))
    read_entries.cache_clear()
    return (time.process_time() - began) / (len(text) / MB)


def slow_patterns(size: int) -> Iterator[tuple[str, float]]:
    """Yield patterns whose time on one piece grows faster than its length, with the factor."""
    for row in SIGNATURES:
        pattern = re.compile(row.pattern, re.MULTILINE)
        times = []
        for length in (size, size * 4):
            line = ((row.sample or row.near_miss or "a") * length)[:length]
            began = time.process_time()
            for _ in range(3):
                sum(1 for _ in pattern.finditer(line))
            times.append(max(time.process_time() - began, 1e-3))
        if times[1] > times[0] * 4 * LIMIT * 2:
            yield row.id, times[1] / times[0]


def main() -> int:
    """Print the table; 1 where something is not linear."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200)
    most = parser.parse_args().megabytes
    code = 0
    print("log, MB, CPU s for each MB")
    for kind, make in KINDS.items():
        rates = {size: measure(make(size * MB)) for size in (most // 4, most // 2, most)}
        for size, rate in rates.items():
            print(f"{kind}, {size}, {rate:.3f}", flush=True)
        linear = rates[most] <= LIMIT * rates[most // 4]
        code |= not linear
        print(f"{kind}: {'linear' if linear else 'NOT LINEAR'}")
    for name, factor in slow_patterns(PIECE * 4):
        code = 1
        print(f"pattern {name}: four times the text takes {factor:.0f} times as long")
    return code


if __name__ == "__main__":
    sys.exit(main())
