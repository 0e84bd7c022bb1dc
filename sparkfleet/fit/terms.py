"""The terms of speed, fitted from what was measured; pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

ROUNDS = 1000  # far more than three terms need


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Bytes/s that decoding reaches, seconds for a part of a layer, seconds for an all-reduce.

    `error` is the root mean square of the relative errors of what they were fitted to.
    """

    bandwidth: float
    part: float
    reduce: float
    error: float
    source: str

    def seconds(self, step: Step) -> float:
        """Return how long `step` takes."""
        return step.read / self.bandwidth + step.parts * self.part + step.reduces * self.reduce


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a step does on one rank: bytes that it reads, parts of layers, all-reduces."""

    read: float
    parts: int
    reduces: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A measured step."""

    step: Step
    seconds: float


PUBLISHED = Terms(  # as `python benchmarks/fit.py --terms` finds them
    bandwidth=226.4e9,
    part=76e-6,
    reduce=103e-6,
    error=0.076,
    source="the published figures (docs/fit.md)",
)


def fitted(samples: Sequence[Sample], *, source: str, first: Terms = PUBLISHED) -> Terms:
    """Return the terms whose relative errors over `samples` are least in square.

    None is below zero; one that no sample has stays as in `first`. Each in turn is set to its best
    value with the others as they are, until nothing moves.
    """
    rows = [(s.step.read, s.step.parts, s.step.reduces) for s in samples]
    shares = [[value / s.seconds for value in row] for row, s in zip(rows, samples, strict=True)]
    values = [1 / first.bandwidth, first.part, first.reduce]
    for _ in range(ROUNDS):
        for at in range(len(values)):
            values[at] = _best(shares, values, at)
    made = Terms(
        bandwidth=1 / values[0], part=values[1], reduce=values[2], error=first.error, source=source
    )
    wrong = [made.seconds(sample.step) / sample.seconds - 1 for sample in samples]
    error = (sum(one**2 for one in wrong) / len(wrong)) ** 0.5 if wrong else first.error
    return Terms(
        bandwidth=made.bandwidth, part=made.part, reduce=made.reduce, error=error, source=source
    )


def _best(shares: Sequence[Sequence[float]], values: Sequence[float], at: int) -> float:
    """Return the value of term `at` that makes the relative errors least, the others fixed."""
    square = sum(row[at] ** 2 for row in shares)
    if not square:
        return values[at]
    left = [1 - sum(x * v for x, v in zip(row, values, strict=True)) for row in shares]
    moved = sum(row[at] * rest for row, rest in zip(shares, left, strict=True)) / square
    return max(1e-15, values[at] + moved)


def latency(receipt: str, ranks: int) -> float | None:
    """Return the seconds of an all-reduce of next to nothing, as a `links.json` measured it.

    Its rows have a bus bandwidth in GB/s, which counts ``2 (n - 1) / n`` of each byte; time grows
    with size on a straight line, and this is where it begins. None where it has no two rows.
    """
    try:
        rows = json.loads(receipt)["collective"]["rows"]["all_reduce"]
        counted = 2 * (ranks - 1) / ranks
        times = sorted((row["size"], row["size"] * counted / row["busbw"] / 1e9) for row in rows)
    except (ValueError, TypeError, KeyError, ZeroDivisionError):
        return None
    if ranks < 2 or len(times) < 2:
        return None
    (small, first), (large, last) = times[0], times[-1]
    return float(max(0.0, first - small * (last - first) / (large - small)))
