"""Whether a start fits in the memory of every node, and how much room is left; pure.

vLLM takes ``util`` of a node's memory. From that it takes the weights of the rank and the memory
for running (activations, CUDA graphs, the driver's part); the rest is KV cache, which has to hold
one sequence of the longest length. Unified memory has to hold all of it, and everything else that
runs on the node.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from packaging.version import Version

from sparkfleet.fit.interval import Interval
from sparkfleet.fit.kv_blocks import BlockPool
from sparkfleet.fit.options import ServeOptions
from sparkfleet.fit.requirements import GIB, MemoryRequirements
from sparkfleet.quantities import format_memory as gib
from sparkfleet.vllm.releases import parse_version

BY_SEQUENCES = Version("0.20.0.dev0")
SPARK = 121.6 * GIB  # MemTotal of a Spark
IDLE = 118 * GIB  # MemAvailable of a freshly booted Spark: free-h.idle.txt
MIB = GIB >> 10
CLOSE = 2 * GIB  # MemAvailable of an idle host varies by this much


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
    `logged` the tokens that vLLM's log will name. `fix` says what to set where vLLM refuses.
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
    fix: str = ""

    @property
    def sentence(self) -> str:
        """The answer with its reason."""
        return self.why if self.answer is FitAnswer.UNKNOWN else f"it {self.answer}: {self.why}"


def format_counts(span: Interval) -> str:
    """Return whole numbers: ``1,000``, or ``1,000 to 2,000``."""
    low = f"{span.low:,.0f}"
    high = f"{span.high:,.0f}"
    return low if low == high else f"{low} to {high}"


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
    counted: dict[str, Interval] = (
        {}
        if cache is None or requirements.pool is None
        else _estimate_capacity(requirements, requirements.pool, options, cache)
    )
    if requirements.auto and answer in (FitAnswer.FITS, FitAnswer.CLOSE) and "longest" in counted:
        longest = counted["longest"]
        why += f"; vLLM takes the longest context that fits, {format_counts(longest)} tokens"
    return Fit(
        room=node,
        answer=answer,
        why=why,
        claim=claim,
        spare=spare,
        cache=cache,
        fix=requirements.refusal.fix if requirements.refusal else "",
        **counted,
    )


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
    capacity: dict[str, Interval] = {}
    lengths = [requirements.length] * len(sizes)
    if requirements.most:
        longest = [pool.longest(size, batched, most=requirements.most) for size in sizes]
        capacity["longest"] = Interval.of(*longest)
        lengths = [*longest] if requirements.auto else lengths
    pairs = list(zip(sizes, lengths, strict=True))
    if all(lengths):
        counts = [pool.sequences(size, at or 1, batched) for size, at in pairs]
        capacity["sequences"] = Interval.of(min(counts), max(counts))
    grouped = _logs_groups(options.vllm)
    capacity["logged"] = Interval.of(
        *(
            pool.logged(size, length=None if grouped else length, batched=batched)
            for size, length in pairs
        )
    )
    return capacity


def _logs_groups(vllm: str) -> bool:
    """Return whether a version logs the size of its KV cache as versions before 0.20 do."""
    version = parse_version(vllm)
    return version is not None and version < BY_SEQUENCES


def _decide_answer(
    requirements: MemoryRequirements, options: ServeOptions, node: NodeMemory, claim: Interval
) -> tuple[FitAnswer, str]:
    """Return the answer and its reason: sure refusals first, then what is unknown or close."""
    if requirements.refusal is not None:
        return FitAnswer.NOT, requirements.refusal.why
    if (refusal := _explain_misfit(requirements, options, node, claim)) is not None:
        return FitAnswer.NOT, refusal
    if requirements.unknown:
        return FitAnswer.UNKNOWN, _explain_unknown(requirements, options, claim)
    fixed = requirements.fixed
    sequence_bytes = requirements.sequence_bytes or 0
    if options.kv_bytes is None and fixed and claim.low < fixed.high + sequence_bytes:
        return FitAnswer.CLOSE, (
            f"besides the weights and the runtime, {gib(claim.low - fixed.high)} to "
            f"{gib(claim.low - fixed.low)} remain for a KV cache that needs {gib(sequence_bytes)}"
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
            f"{_format_sequence(requirements)} {gib(requirements.sequence_bytes or 0)}"
        )
    return None


def _explain_short_cache(requirements: MemoryRequirements, given: int) -> str | None:
    if (requirements.sequence_bytes or 0) <= given:
        return None
    return (
        f"{_format_sequence(requirements)} needs {_format_cache(requirements.sequence_bytes or 0)} "
        f"of KV cache, and {_format_cache(given)} are given"
    )


def _format_cache(size: float) -> str:
    """Return a size of KV cache, in MiB where GiB would round it away."""
    return gib(size) if size >= GIB / 2 else f"{size / MIB:.1f} MiB"


def _format_sequence(requirements: MemoryRequirements) -> str:
    if requirements.auto:
        return "the shortest sequence"
    return f"one sequence of {requirements.length} tokens"


def _format_reserved(node: NodeMemory) -> str:
    return f" ({gib(node.kept)} are kept for other services)" if node.kept else ""
