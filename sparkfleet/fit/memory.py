"""Whether a start fits in the memory of every node, and how much room is left; pure.

vLLM takes ``util`` of a node's memory. From that go the weights of the rank and what running takes
(activations, CUDA graphs, the driver's part); the rest is KV cache, which has to hold one sequence
of the longest length. On unified memory the whole has to be free beside everything else that runs.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkfleet.fit.need import GIB, Need
from sparkfleet.fit.options import Start
from sparkfleet.fit.pool import Pool
from sparkfleet.fit.span import Span
from sparkfleet.quantities import show_memory as gib

SPARK = 121.6 * GIB  # MemTotal of a Spark, facts section 1.5
CLOSE = 2 * GIB  # by so much MemAvailable moves on a host that serves nothing


class Answer(enum.StrEnum):
    """Whether it fits."""

    FITS = "fits"
    CLOSE = "may not fit"
    NOT = "does not fit"
    UNKNOWN = "cannot tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A node's memory, bytes: all of it, and what is available once ours has stopped, if known.

    `kept` is set aside for its other services; below `guard` the memory guard ends the ranks.
    """

    host: str
    total: float = SPARK
    available: float | None = None
    kept: float = 0
    guard: float = 0

    @property
    def free(self) -> float:
        """What vLLM can have at most."""
        return (self.total if self.available is None else self.available) - self.kept

    def util(self, left: float = 0) -> float:
        """Return the highest ``gpu-memory-utilization`` that leaves `left` bytes, in hundredths."""
        return max(0.0, math.floor((self.free - left) / self.total * 100) / 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The answer for one node, with its reason.

    `claim` is what vLLM takes there, `spare` what then stays free (negative: lacks), `cache` the
    KV cache; `sequences` of the asked length fit at once, `longest` is the longest that does, and
    `logged` the tokens that vLLM's log will name.
    """

    room: Room
    answer: Answer
    why: str
    claim: Span
    spare: Span
    cache: Span | None = None
    sequences: Span | None = None
    longest: Span | None = None
    logged: Span | None = None

    @property
    def sentence(self) -> str:
        """The answer with its reason."""
        return self.why if self.answer is Answer.UNKNOWN else f"it {self.answer}: {self.why}"


def judge(need: Need, start: Start, rooms: Sequence[Room]) -> Mapping[str, Fit]:
    """Return the answer for each node."""
    return {room.host: _judge(need, start, room) for room in rooms}


def _judge(need: Need, start: Start, room: Room) -> Fit:
    claim, cache = _claim(need, start, room)
    spare = Span.of(room.free - claim.high, room.free - claim.low)
    answer, why = _answer(need, start, room, claim)
    counted = {} if cache is None or need.pool is None else _counts(need, need.pool, start, cache)
    return Fit(room=room, answer=answer, why=why, claim=claim, spare=spare, cache=cache, **counted)


def _claim(need: Need, start: Start, room: Room) -> tuple[Span, Span | None]:
    """Return what vLLM takes on a node, and how much of that is KV cache."""
    if start.kv_bytes is not None:
        fixed = need.fixed or Span.of(need.sure, room.total)
        return fixed + Span.of(start.kv_bytes), Span.of(start.kv_bytes)
    claim = start.util * room.total
    if need.fixed is None:
        return Span.of(claim), None
    rest = Span.of(max(0, claim - need.fixed.high), max(0, claim - need.fixed.low))
    return Span.of(claim), rest


def _counts(need: Need, blocks: Pool, start: Start, cache: Span) -> dict[str, Span]:
    sizes, batched = (cache.low, cache.high), start.batched
    found = {"logged": Span.of(*(blocks.logged(size) for size in sizes))}
    if need.length:
        counts = (blocks.sequences(size, need.length, batched) for size in sizes)
        found["sequences"] = Span.of(*counts)
    if need.most:
        lengths = (blocks.longest(size, batched, most=need.most) for size in sizes)
        found["longest"] = Span.of(*lengths)
    return found


def _answer(need: Need, start: Start, room: Room, claim: Span) -> tuple[Answer, str]:
    """Return the answer and its reason: sure refusals first, then what is unknown or close."""
    if (refusal := _refusal(need, start, room, claim)) is not None:
        return Answer.NOT, refusal
    if need.unknown:
        return Answer.UNKNOWN, "; ".join(need.unknown)
    fixed, one = need.fixed, need.one or 0
    if start.kv_bytes is None and fixed and claim.low < fixed.high + one:
        return Answer.CLOSE, (
            f"beside weights and running, {gib(claim.low - fixed.high)} to "
            f"{gib(claim.low - fixed.low)} stay for a KV cache that needs {gib(one)}"
        )
    left = room.free - (claim.high if start.kv_bytes is None else claim.low)
    if room.available is not None and left < room.guard + CLOSE:
        limit = f"; the memory guard acts at {gib(room.guard)}" if room.guard else ""
        return Answer.CLOSE, f"only {gib(left)} would stay free{limit}"
    return Answer.FITS, f"{gib(left)} stay free"


def _refusal(need: Need, start: Start, room: Room, claim: Span) -> str | None:
    """Return why it cannot fit, whatever is not known; None where that is not sure."""
    sure = need.sure + (start.kv_bytes or 0)
    if start.kv_bytes is None and claim.low > room.free:
        return (
            f"util {start.util:g} takes {gib(claim.low)} of {gib(room.total)}, and "
            f"{gib(room.free)} can be had{_kept(room)}"
        )
    if sure > room.free:
        return f"it needs {gib(sure)} at least, and {gib(room.free)} can be had{_kept(room)}"
    if start.kv_bytes is not None:
        return _short(need, start.kv_bytes)
    if sure + (need.one or 0) > claim.low:
        return (
            f"util {start.util:g} gives {gib(claim.low)}; the weights take {gib(need.sure)} and "
            f"one sequence of {need.length} tokens {gib(need.one or 0)}"
        )
    return None


def _short(need: Need, given: int) -> str | None:
    if (need.one or 0) <= given:
        return None
    return (
        f"one sequence of {need.length} tokens needs {gib(need.one or 0)} of KV cache, and "
        f"{gib(given)} are given"
    )


def _kept(room: Room) -> str:
    return f" ({gib(room.kept)} are kept for other services)" if room.kept else ""
