"""How fast requests were answered, and how that compares with what was published; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from statistics import mean, median

from sparkfleet.launch.replies import Reply
from sparkfleet.recipes.about import Speed

LEAST = 1e-6  # s; no clock of ours tells less
HALF = 0.5
NEAR = 1.25  # times the context that was asked for: prompts have about as many tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
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
class Compared:
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


def pace(replies: Sequence[Reply], cached: int = 0) -> Pace:
    """Return the pace of requests that were sent together and answered as streams."""
    prompts, answers = (
        [getattr(one, name) or 0 for one in replies] for name in ("prompt_tokens", "tokens")
    )
    firsts = [one.began + (one.first or one.seconds) for one in replies]
    lasts = [one.began + (one.last or one.seconds) for one in replies]
    reading = max(firsts) - min(one.began for one in replies)
    return Pace(
        requests=len(replies),
        context=mean(prompts),
        answer=mean(answers),
        ttft=mean(one.first or one.seconds for one in replies),
        prefill=max(sum(prompts) - cached, 0) / max(reading, LEAST),
        decode=(sum(answers) - len(replies)) / max(max(lasts) - min(firsts), LEAST),
        cached=cached,
    )


def middle(rounds: Sequence[Pace]) -> Pace:
    """Return the median of every figure over `rounds` of as many requests."""
    names = [one.name for one in fields(Pace) if one.name != "requests"]
    figures = {name: median(getattr(one, name) for one in rounds) for name in names}
    return Pace(requests=rounds[0].requests, **figures)


def published(speeds: Sequence[Speed], nodes: int, measured: Pace) -> tuple[Speed, ...]:
    """Return the published rows of as many nodes and requests, of the nearest shorter context."""
    rows = [one for one in speeds if one.nodes == nodes and one.requests == measured.requests]
    contexts = {row.context or 0 for row in rows}
    near = [one for one in contexts if one <= NEAR * measured.context] or [min(contexts, default=0)]
    return tuple(row for row in rows if (row.context or 0) == max(near))


def compared(rows: Sequence[Speed], measured: Pace) -> tuple[Compared, ...]:
    """Return decode beside the best of `rows`, prefill beside the slowest.

    A row does not tell how long its prompts were, and short ones are read at a fraction of the
    pace of long ones.
    """
    found = []
    if decodes := [row for row in rows if row.decode]:
        best = max(decodes, key=lambda row: row.decode or 0)
        found.append(_beside("decode", measured.decode, best.decode, best))
    if prefills := [row for row in rows if row.prefill]:
        least = min(prefills, key=lambda row: row.prefill or 0)
        found.append(_beside("prefill", measured.prefill, least.prefill, least))
    return tuple(found)


def _beside(what: str, measured: float, figure: float | None, row: Speed) -> Compared:
    return Compared(what=what, measured=measured, published=figure or 0, speed=row)
