"""The terms of speed, fitted from what was measured; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sparkfleet.values import parse_json

ROUNDS = 1000  # far more than three terms need
FEW = 4  # samples; the errors of fewer say little
HOLD = 0.02  # a term of twice the published one counts as much as an error of 7 %


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """Bytes/s that decoding reaches, seconds for a part of a layer, seconds for an all-reduce.

    No step takes less than `floor` seconds, however small the model: the engine itself takes them.
    `error` is the root mean square of the relative errors of what they were fitted to.
    """

    bandwidth: float
    part: float
    reduce: float
    error: float
    source: str
    floor: float = 0.0

    def seconds(self, step: DecodeStep) -> float:
        """Return how long `step` takes."""
        work = step.read / self.bandwidth + step.parts * self.part + step.reduces * self.reduce
        return max(self.floor, work)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeStep:
    """The work of a step on one rank: bytes read, parts of layers, all-reduces."""

    read: float
    parts: int
    reduces: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A measured step."""

    step: DecodeStep
    seconds: float


PUBLISHED = CostModel(  # as `python benchmarks/fit.py --terms` finds them
    bandwidth=226.4e9,
    part=76e-6,
    reduce=103e-6,
    error=0.076,
    source="the published figures (docs/fit.md)",
    floor=5e-3,  # a model of 4 layers made 188 tok/s on two H200 with vLLM 0.20.2
)


def fit_cost_model(
    samples: Sequence[Sample], *, source: str, first: CostModel = PUBLISHED, hold: float = 0
) -> CostModel:
    """Return the terms whose relative errors over `samples` are least in square.

    None is below zero; one that no sample has stays as in `first`. How much of a term is not as in
    `first` counts `hold` times as an error does: samples of one model do not separate the terms.
    Each in turn is set to its best value with the others as they are, until nothing moves.
    """
    rows = [(s.step.read, s.step.parts, s.step.reduces) for s in samples]
    shares = [[value / s.seconds for value in row] for row, s in zip(rows, samples, strict=True)]
    held = (1 / first.bandwidth, first.part, first.reduce)
    values = list(held)
    for _ in range(ROUNDS):
        for at in range(len(values)):
            values[at] = _minimize_term(shares, values, at, hold=(held[at], hold))
    fastest = min((sample.seconds for sample in samples), default=first.floor)
    model = CostModel(
        bandwidth=1 / values[0],
        part=values[1],
        reduce=values[2],
        error=first.error,
        source=source,
        floor=min(first.floor, fastest),
    )
    deviations = [model.seconds(sample.step) / sample.seconds - 1 for sample in samples]
    error = (
        (sum(deviation**2 for deviation in deviations) / len(deviations)) ** 0.5
        if deviations
        else first.error
    )
    return replace(model, error=error)


def calibrate_cost_model(samples: Sequence[Sample], first: CostModel) -> CostModel:
    """Return the terms of a cluster by what `serve.bench` measured there, held near `first`.

    With few samples, their error is at least that of `first`.
    """
    source = f"{len(samples)} figures of serve.bench here, held near {first.source}"
    model = fit_cost_model(samples, source=source, first=first, hold=HOLD)
    return model if len(samples) >= FEW else replace(model, error=max(model.error, first.error))


def _minimize_term(
    shares: Sequence[Sequence[float]],
    values: Sequence[float],
    at: int,
    *,
    hold: tuple[float, float],
) -> float:
    """Return the value of term `at` that makes the errors least, the others fixed."""
    held, weight = hold
    weight /= values[at] ** 2  # of what it is now: a machine of another kind may be far from it
    square = sum(row[at] ** 2 for row in shares) + weight
    if not square:
        return values[at]
    left = [
        1 - sum(share * value for share, value in zip(row, values, strict=True)) for row in shares
    ]
    pull = sum(row[at] * rest for row, rest in zip(shares, left, strict=True))
    return max(1e-15, values[at] + (pull + weight * (held - values[at])) / square)


def parse_allreduce_latency(receipt: str, ranks: int) -> float | None:
    """Return the seconds of an all-reduce of next to nothing, as a receipt of a collective has it.

    Its rows have a bus bandwidth in GB/s, which counts ``2 (n - 1) / n`` of each byte; time grows
    with size on a straight line, and this is where it begins. None where it has no two rows.
    """
    try:
        rows = parse_json(receipt)["collective"]["rows"]["all_reduce"]
        counted = 2 * (ranks - 1) / ranks
        times = sorted((row["size"], row["size"] * counted / row["busbw"] / 1e9) for row in rows)
    except (ValueError, TypeError, KeyError, ZeroDivisionError):
        return None
    if ranks < 2 or len(times) < 2:
        return None
    (small, first), (large, last) = times[0], times[-1]
    return float(max(0.0, first - small * (last - first) / (large - small)))
