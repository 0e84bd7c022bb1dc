"""Times the diagnosis of large logs, and each pattern alone: linear in size, up to 200 MB.

``python benchmarks/doctor.py [--megabytes 200] [--kind KIND]...``. The logs are made of recorded
ones, plain and as Docker and the journal hand them on, of public reports, of nothing but failures,
of errors that no row knows, of lines that nearly match, of progress bars, and of one endless line.
A size counts CPU seconds for each MB; the largest
may need at most 1.5 times those of a quarter of it. The last column is the ratio to `grep -iF`,
which only counts the lines that have a word of a known failure.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sparkfleet.doctor.diagnosis import diagnose_logs
from sparkfleet.doctor.events import read_entries
from sparkfleet.doctor.logs import LogBundle, LogFile
from sparkfleet.doctor.patterns import find_needles
from sparkfleet.doctor.signatures import SIGNATURES

TESTS = Path(__file__).parents[1] / "tests"
TIME = "2026-11-29T01:02:03.123456789Z"
MB = 1_000_000
LIMIT = 1.5  # of the seconds for each MB at a quarter of the size
SEED = 16
PIECE = 4096  # characters; a diagnosis cuts longer lines


def recorded_log(size: int, carry: Callable[[str], str] = str) -> str:
    """Return lines of recorded logs, each unlike the others, as `carry` hands them on."""
    lines = [
        line
        for path in sorted((TESTS / "outputs").glob("*.log"))
        for line in path.read_text(errors="replace").splitlines()
    ]
    chosen = random.Random(SEED)  # noqa: S311 - the same lines each time
    return _join(lambda: carry(f"{chosen.choice(lines)} {chosen.random()}"), size)


def docker_log(size: int) -> str:
    """Return lines as `docker logs --timestamps` prints them."""
    return recorded_log(size, lambda line: f"{TIME} {line}")


def journal_log(size: int) -> str:
    """Return lines as `journalctl` prints them."""
    return recorded_log(size, lambda line: f"Nov 29 01:02:03 spark-01 docker[4711]: {line}")


def json_log(size: int) -> str:
    """Return lines as Docker's json-file driver writes them."""
    return recorded_log(
        size, lambda line: json.dumps({"log": f"{line}\n", "stream": "stderr", "time": TIME})
    )


def report_log(size: int) -> str:
    """Return failures of public reports, one after the other."""
    texts = [
        line
        for path in sorted((TESTS / "reports").glob("*.txt"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("@ ")
    ]
    chosen = random.Random(SEED)  # noqa: S311 - the same lines each time
    return _join(lambda: chosen.choice(texts), size)


def progress_log(size: int) -> str:
    """Return progress bars, each drawn over the one before."""
    bar = (
        "\rLoading safetensors checkpoint shards:  {:3d}% Completed | {}/100 [00:12<00:13, 3.9it/s]"
    )
    counts = iter(range(size))
    return _join(lambda: "".join(bar.format(n, n) for n in (next(counts) % 100,) * 20), size)


def near_log(size: int) -> str:
    """Return lines that have the words of a failure and are none."""
    lines = [row.near_miss for row in SIGNATURES if row.near_miss]
    chosen = random.Random(SEED)  # noqa: S311 - the same lines each time
    return _join(lambda: chosen.choice(lines) * 3, size)


def failing_log(size: int, before: str = "") -> str:
    """Return nothing but failures, a sample of each row again and again, with `before` each."""
    lines = [row.sample for row in SIGNATURES if row.sample]
    chosen = random.Random(SEED)  # noqa: S311 - the same lines each time
    return _join(lambda: f"{before}{chosen.choice(lines)} {chosen.random()}", size)


def worker_log(size: int) -> str:
    """Return nothing but failures of a worker, as Ray hands them on."""
    return failing_log(size, "(RayWorkerWrapper pid=4711, ip=192.168.100.2) ")


def unknown_log(size: int) -> str:
    """Return exceptions that no row knows."""
    counts = iter(range(size))
    return _join(lambda: f"example.StrangeError: nothing that is known, {next(counts)}", size)


def memory_log(size: int) -> str:
    """Return a failure that is judged by what is before it, again and again."""
    counts = iter(range(size))
    first = "Starting to load model a/b\n"
    return first + _join(lambda: f"CUDA error: out of memory {next(counts)}", size)


def endless_log(size: int) -> str:
    """Return one line."""
    return "Error: /usr/bin/ld 0x" * (size // 21)


KINDS: dict[str, Callable[[int], str]] = {
    "recorded": recorded_log,
    "docker": docker_log,
    "journal": journal_log,
    "json": json_log,
    "reports": report_log,
    "failures": failing_log,
    "failures of a worker": worker_log,
    "unknown errors": unknown_log,
    "out of memory": memory_log,
    "near misses": near_log,
    "progress bars": progress_log,
    "one line": endless_log,
}


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


def measure_grep(text: str) -> float:
    """Return the CPU seconds of GNU grep for each MB, searching for the words of all failures."""
    words = sorted({word for row in SIGNATURES for word in find_needles(row.pattern)})
    with tempfile.TemporaryDirectory() as folder:
        log, wanted = Path(folder, "log"), Path(folder, "words")
        log.write_text(text, encoding="utf-8", errors="replace")
        wanted.write_text("\n".join(words), encoding="utf-8")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            ["grep", "-a", "-c", "-i", "-F", "-f", str(wanted), str(log)],
            check=False,
            stdout=subprocess.PIPE,  # grep stops at the first match if its output is /dev/null
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent / (len(text) / MB)


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
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="default: all")
    asked = parser.parse_args()
    most = asked.megabytes
    code = 0
    print("log, MB, CPU s for each MB, of grep, ratio")
    for kind in asked.kind or KINDS:
        make = KINDS[kind]
        rates = {}
        for size in (most // 4, most // 2, most):
            text = make(size * MB)
            rates[size], grep = measure(text), measure_grep(text)
            ratio = rates[size] / max(grep, 1e-6)
            print(f"{kind}, {size}, {rates[size]:.3f}, {grep:.3f}, {ratio:.1f}", flush=True)
        linear = rates[most] <= LIMIT * rates[most // 4]
        code |= not linear
        print(f"{kind}: {'linear' if linear else 'NOT LINEAR'}")
    for name, factor in slow_patterns(PIECE * 4):
        code = 1
        print(f"pattern {name}: four times the text takes {factor:.0f} times as long")
    return code


if __name__ == "__main__":
    sys.exit(main())
