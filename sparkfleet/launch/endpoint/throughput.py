"""Throughput of requests, and its comparison with published figures; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from statistics import mean, median

from sparkfleet.launch.endpoint.replies import Reply
from sparkfleet.recipes.metadata import Speed

MIN_SECONDS = 1e-6  # seconds; avoids a division by zero
HALF = 0.5
NEAR = 1.25  # times the requested context, since prompts only have about that many tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Throughput of concurrent `requests`: total `prefill` and `decode` in tokens/s.

    `context` and `answer` are tokens per request, `ttft` the mean time to first token in seconds.
    Prefill counts until the last request has its first token, without `cached`, the prompt tokens
    found in the prefix cache; decode counts from the first token of any request to the last token.
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
    """A measured figure in tokens/s and the published one that it is compared with."""

    what: str  # decode or prefill
    measured: float
    published: float
    speed: Speed

    @property
    def share(self) -> float:
        """The measured figure as a share of the published one."""
        return self.measured / self.published

    @property
    def slow(self) -> bool:
        """Whether the measured figure is below half of the published one."""
        return self.share < HALF


def compute_throughput(replies: Sequence[Reply], cached: int = 0) -> Throughput:
    """Return the throughput of requests that were sent together and answered as streams."""
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
    """Return the median of each figure over `rounds` with the same number of requests."""
    names = [item.name for item in fields(Throughput) if item.name != "requests"]
    figures = {name: median(getattr(item, name) for item in rounds) for name in names}
    return Throughput(requests=rounds[0].requests, **figures)


def find_published_speeds(
    speeds: Sequence[Speed], nodes: int, measured: Throughput
) -> tuple[Speed, ...]:
    """Return published rows with the same nodes and requests and the nearest shorter context."""
    rows = [item for item in speeds if item.nodes == nodes and item.requests == measured.requests]
    contexts = {row.context or 0 for row in rows}
    near = [item for item in contexts if item <= NEAR * measured.context] or [
        min(contexts, default=0)
    ]
    return tuple(row for row in rows if (row.context or 0) == max(near))


def compare_speeds(rows: Sequence[Speed], measured: Throughput) -> tuple[SpeedComparison, ...]:
    """Compare decode with the best of `rows`, prefill with the slowest.

    Rows do not state the length of their prompts, and prefill of short prompts is much slower than
    that of long ones.
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
