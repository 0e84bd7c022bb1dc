"""How fast requests were answered, and how that compares with what was published; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from statistics import mean, median

from sparkfleet.launch.endpoint.replies import Reply
from sparkfleet.recipes.metadata import Speed

MIN_SECONDS = 1e-6  # s; no clock of ours tells less
HALF = 0.5
NEAR = 1.25  # times the context that was asked for: prompts have about as many tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """What `requests` at once got: `prefill` and `decode` in tokens/s of all together.

    `context` and `answer` are tokens of each request, `ttft` the mean seconds to its first token.
    Prefill counts until the last of them had its first token, without `cached`, the tokens of all
    prompts that the prefix cache had; decode from the first token of any to the last of all.
    """

    requests: int
    context: float
    answer: float
    ttft: float
    prefill: float
    decode: float
    cached: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedComparison:
    """A measured figure in tokens/s beside the published one that it is held against."""

    what: str  # decode or prefill
    measured: float
    published: float
    speed: Speed

    @property
    def share(self) -> float:
        """The measured part of what was published."""
        return self.measured / self.published

    @property
    def slow(self) -> bool:
        """Whether it is under half."""
        return self.share < HALF


def compute_throughput(replies: Sequence[Reply], cached: int = 0) -> Throughput:
    """Return the pace of requests that were sent together and answered as streams."""
    prompts, answers = (
        [getattr(reply, name) or 0 for reply in replies] for name in ("prompt_tokens", "tokens")
    )
    firsts = [reply.began + (reply.first or reply.seconds) for reply in replies]
    lasts = [reply.began + (reply.last or reply.seconds) for reply in replies]
    reading = max(firsts) - min(reply.began for reply in replies)
    return Throughput(
        requests=len(replies),
        context=mean(prompts),
        answer=mean(answers),
        ttft=mean(reply.first or reply.seconds for reply in replies),
        prefill=max(sum(prompts) - cached, 0) / max(reading, MIN_SECONDS),
        decode=(sum(answers) - len(replies)) / max(max(lasts) - min(firsts), MIN_SECONDS),
        cached=cached,
    )


def compute_median(rounds: Sequence[Throughput]) -> Throughput:
    """Return the median of every figure over `rounds` of as many requests."""
    names = [item.name for item in fields(Throughput) if item.name != "requests"]
    figures = {name: median(getattr(item, name) for item in rounds) for name in names}
    return Throughput(requests=rounds[0].requests, **figures)


def find_published_speeds(
    speeds: Sequence[Speed], nodes: int, measured: Throughput
) -> tuple[Speed, ...]:
    """Return the published rows of as many nodes and requests, of the nearest shorter context."""
    rows = [item for item in speeds if item.nodes == nodes and item.requests == measured.requests]
    contexts = {row.context or 0 for row in rows}
    near = [item for item in contexts if item <= NEAR * measured.context] or [
        min(contexts, default=0)
    ]
    return tuple(row for row in rows if (row.context or 0) == max(near))


def compare_speeds(rows: Sequence[Speed], measured: Throughput) -> tuple[SpeedComparison, ...]:
    """Return decode beside the best of `rows`, prefill beside the slowest.

    A row does not tell how long its prompts were, and short ones are read at a fraction of the
    pace of long ones.
    """
    comparisons = []
    if decodes := [row for row in rows if row.decode]:
        best = max(decodes, key=lambda row: row.decode or 0)
        comparisons.append(_compare_figure("decode", measured.decode, best.decode, best))
    if prefills := [row for row in rows if row.prefill]:
        least = min(prefills, key=lambda row: row.prefill or 0)
        comparisons.append(_compare_figure("prefill", measured.prefill, least.prefill, least))
    return tuple(comparisons)


def _compare_figure(
    what: str, measured: float, figure: float | None, row: Speed
) -> SpeedComparison:
    return SpeedComparison(what=what, measured=measured, published=figure or 0, speed=row)
