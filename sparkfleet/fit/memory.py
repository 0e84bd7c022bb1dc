"""Whether a start fits in the memory of every node, and how much room is left; pure.

vLLM takes ``util`` of a node's memory. From that go the weights of the rank and what running takes
(activations, CUDA graphs, the driver's part); the rest is KV cache, which has to hold one sequence
of the longest length. Unified memory has to hold all of it and
everything else that runs.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkfleet.fit.interval import Interval
from sparkfleet.fit.options import ServeOptions
from sparkfleet.fit.pool import BlockPool
from sparkfleet.fit.requirements import GIB, MemoryRequirements
from sparkfleet.quantities import format_memory as gib

SPARK = 121.6 * GIB  # MemTotal of a Spark
CLOSE = 2 * GIB  # by so much MemAvailable moves on a host that serves nothing


class FitAnswer(enum.StrEnum):
    """Whether it fits."""

    FITS = "fits"
    CLOSE = "may not fit"
    NOT = "does not fit"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMemory:
    """A node's memory, bytes: all of it, and what is available without the deployment.

    `kept` is set aside for its other services; below `guard` the memory guard stops the ranks.
    """

    host: str
    total: float = SPARK
    available: float | None = None
    kept: float = 0
    guard: float = 0

    @property
    def free(self) -> float:
        """The most that vLLM can take."""
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

    room: NodeMemory
    answer: FitAnswer
    why: str
    claim: Interval
    spare: Interval
    cache: Interval | None = None
    sequences: Interval | None = None
    longest: Interval | None = None
    logged: Interval | None = None

    @property
    def sentence(self) -> str:
        """The answer with its reason."""
        return self.why if self.answer is FitAnswer.UNKNOWN else f"it {self.answer}: {self.why}"


def evaluate_nodes(
    requirements: MemoryRequirements, options: ServeOptions, nodes: Sequence[NodeMemory]
) -> Mapping[str, Fit]:
    """Return the answer for each node."""
    return {node.host: _evaluate_node(requirements, options, node) for node in nodes}


def _evaluate_node(
    requirements: MemoryRequirements, options: ServeOptions, node: NodeMemory
) -> Fit:
    claim, cache = _estimate_claim(requirements, options, node)
    spare = Interval.of(node.free - claim.high, node.free - claim.low)
    answer, why = _decide_answer(requirements, options, node, claim)
    counted = (
        {}
        if cache is None or requirements.pool is None
        else _estimate_capacity(requirements, requirements.pool, options, cache)
    )
    return Fit(room=node, answer=answer, why=why, claim=claim, spare=spare, cache=cache, **counted)


def _estimate_claim(
    requirements: MemoryRequirements, options: ServeOptions, node: NodeMemory
) -> tuple[Interval, Interval | None]:
    """Return what vLLM takes on a node, and how much of that is KV cache."""
    if options.kv_bytes is not None:
        fixed = requirements.fixed or Interval.of(requirements.sure, node.total)
        return fixed + Interval.of(options.kv_bytes), Interval.of(options.kv_bytes)
    claim = options.util * node.total
    if requirements.fixed is None:
        return Interval.of(claim), None
    rest = Interval.of(
        max(0, claim - requirements.fixed.high), max(0, claim - requirements.fixed.low)
    )
    return Interval.of(claim), rest


def _estimate_capacity(
    requirements: MemoryRequirements, pool: BlockPool, options: ServeOptions, cache: Interval
) -> dict[str, Interval]:
    sizes = (cache.low, cache.high)
    batched = options.batched
    capacity = {"logged": Interval.of(*(pool.logged(size) for size in sizes))}
    if requirements.length:
        counts = (pool.sequences(size, requirements.length, batched) for size in sizes)
        capacity["sequences"] = Interval.of(*counts)
    if requirements.most:
        lengths = (pool.longest(size, batched, most=requirements.most) for size in sizes)
        capacity["longest"] = Interval.of(*lengths)
    return capacity


def _decide_answer(
    requirements: MemoryRequirements, options: ServeOptions, node: NodeMemory, claim: Interval
) -> tuple[FitAnswer, str]:
    """Return the answer and its reason: sure refusals first, then what is unknown or close."""
    if (refusal := _explain_misfit(requirements, options, node, claim)) is not None:
        return FitAnswer.NOT, refusal
    if requirements.unknown:
        return FitAnswer.UNKNOWN, _explain_unknown(requirements, options, claim)
    fixed = requirements.fixed
    sequence_bytes = requirements.sequence_bytes or 0
    if options.kv_bytes is None and fixed and claim.low < fixed.high + sequence_bytes:
        return FitAnswer.CLOSE, (
            f"next to the weights and the runtime, {gib(claim.low - fixed.high)} to "
            f"{gib(claim.low - fixed.low)} stay for a KV cache that needs {gib(sequence_bytes)}"
        )
    left = node.free - (claim.high if options.kv_bytes is None else claim.low)
    if node.available is not None and left < node.guard + CLOSE:
        limit = f"; the memory guard acts at {gib(node.guard)}" if node.guard else ""
        return FitAnswer.CLOSE, f"only {gib(left)} would stay free{limit}"
    return FitAnswer.FITS, f"{gib(left)} stay free"


def _explain_unknown(
    requirements: MemoryRequirements, options: ServeOptions, claim: Interval
) -> str:
    """Return what is not known, and what is: whether the weights alone fit."""
    unknown = "; ".join(requirements.unknown)
    fixed = requirements.fixed
    if fixed is None or options.kv_bytes is not None or claim.low <= fixed.high:
        return unknown
    low = gib(claim.low - fixed.high).removesuffix(" GiB")
    left = f"{low} to {gib(claim.low - fixed.low)}"
    return f"the weights fit, and {left} are left for the KV cache; {unknown}"


def _explain_misfit(
    requirements: MemoryRequirements, options: ServeOptions, node: NodeMemory, claim: Interval
) -> str | None:
    """Return why it cannot fit, whatever is not known; None where that is not sure."""
    sure = requirements.sure + (options.kv_bytes or 0)
    if options.kv_bytes is None and claim.low > node.free:
        return (
            f"util {options.util:g} takes {gib(claim.low)} of {gib(node.total)}, and "
            f"{gib(node.free)} is available{_format_reserved(node)}"
        )
    if sure > node.free:
        return (
            f"it needs at least {gib(sure)}, and {gib(node.free)} is "
            f"available{_format_reserved(node)}"
        )
    if options.kv_bytes is not None:
        return _explain_short_cache(requirements, options.kv_bytes)
    if sure + (requirements.sequence_bytes or 0) > claim.low:
        return (
            f"util {options.util:g} gives {gib(claim.low)}; the weights take "
            f"{gib(requirements.sure)} and "
            f"one sequence of {requirements.length} tokens {gib(requirements.sequence_bytes or 0)}"
        )
    return None


def _explain_short_cache(requirements: MemoryRequirements, given: int) -> str | None:
    if (requirements.sequence_bytes or 0) <= given:
        return None
    return (
        f"one sequence of {requirements.length} tokens needs "
        f"{gib(requirements.sequence_bytes or 0)} of KV cache, and "
        f"{gib(given)} are given"
    )


def _format_reserved(node: NodeMemory) -> str:
    return f" ({gib(node.kept)} are kept for other services)" if node.kept else ""
