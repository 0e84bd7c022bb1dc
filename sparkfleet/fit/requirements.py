"""Memory needed on each rank: weights, runtime and KV cache; pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from packaging.version import Version

from sparkfleet.fit.interval import NOTHING, Interval, UnknownFigureError
from sparkfleet.fit.kv_blocks import BLOCK, POOLED_UNIT, BlockPool, build_block_pool
from sparkfleet.fit.kv_cache import list_layer_caches
from sparkfleet.fit.limits.refusals import Refusal, find_refusal
from sparkfleet.fit.model import ModelProfile
from sparkfleet.fit.options import ServeOptions
from sparkfleet.fit.sparse.compressed import build_compressed_pool
from sparkfleet.vllm.releases import parse_version

GIB = 1 << 30
RUNNING = Interval.of(4 * GIB, 8 * GIB)
"""Memory of the runtime, in addition to weights and KV cache.

One published start names all parts: 0.85 x 121.6 - 15.76 - 81.8 = 5.8 GiB (52-toks document).
"""
RUNNING_EAGER = Interval.of(2 * GIB, 6 * GIB)  # without CUDA graphs
LOOKUPS = ("ngram", "suffix")  # drafts out of the text itself, without a model
DSPARK = "dspark"
ALIGNED_SINCE, ALIGNED_UNTIL = Version("0.17.0"), Version("0.26.0")
NEARLY = 0.9
BLOCK_DRAFTS = (DSPARK, "dflash")  # whose layers are not those of an MTP head


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRequirements:
    """Memory needed on each rank, bytes; None where it is unknown.

    `refusal` is what vLLM refuses whatever the memory is. With `auto` vLLM takes the longest that
    fits, and `length` is a single token.
    """

    weights: Interval | None
    draft: Interval
    running: Interval
    pool: BlockPool | None
    sequence_bytes: int | None  # KV cache of one sequence of `length` tokens
    length: int | None  # what is asked for, else the model's own
    auto: bool = False
    most: int | None = None  # the longest that is looked for
    refusal: Refusal | None = None
    unknown: tuple[str, ...] = ()

    @property
    def fixed(self) -> Interval | None:
        """Everything but the KV cache."""
        return None if self.weights is None else self.weights + self.draft + self.running

    @property
    def sure(self) -> float:
        """The memory that is certainly needed, without KV cache."""
        return (self.weights.low if self.weights else 0) + self.draft.low


def estimate_requirements(model: ModelProfile, options: ServeOptions) -> MemoryRequirements:
    """Return the memory that `model` needs on each rank."""
    unknown = list(model.unknown)
    weights = model.weights and _estimate_rank_weights(model, options)
    if options.disk_tables:
        weights = None
        unknown.append(
            f"unknown weights in memory: {options.disk_tables} keeps tables of the model on disk"
        )
    elif weights is None and not unknown:
        unknown.append("unknown weights: no file of the model was read")
    context = model.shape.context if model.shape else None
    length = 1 if options.auto_length and context else options.length or context
    blocks = None
    sequence_bytes = None
    try:
        blocks = _estimate_block_pool(model, options)
        if length:
            sequence_bytes = blocks.sequence_bytes(length, options.batched)
    except UnknownFigureError as error:
        unknown.append(error.message)
    if length is None and model.shape:
        unknown.append("unknown context length: pass --max-model-len")
    return MemoryRequirements(
        weights=weights or None,
        draft=model.draft.resident.times(1 / options.tp) if model.draft else NOTHING,
        running=RUNNING_EAGER if options.eager else RUNNING,
        pool=blocks,
        sequence_bytes=sequence_bytes,
        length=length,
        auto=options.auto_length and context is not None,
        most=max(length or 0, context or 0) or None,
        refusal=_find_refusal(model, options, blocks),
        unknown=tuple(dict.fromkeys(unknown)),
    )


def _find_refusal(
    model: ModelProfile, options: ServeOptions, pool: BlockPool | None
) -> Refusal | None:
    refusal = find_refusal(model.shape, options) if model.shape else None
    return refusal or (_refuse_aligned_block(pool, options) if pool else None)


def _refuse_aligned_block(pool: BlockPool, options: ServeOptions) -> Refusal | None:
    """Return why vLLM refuses a batch that is smaller than a block with an aligned state.

    Asserted in config/vllm.py of 0.17 to 0.26 (vllm-project/vllm#36734). A draft makes states a
    little larger, so a batch of nearly a block is left to vLLM.
    """
    version = parse_version(options.vllm)
    if not options.aligned or version is None or not ALIGNED_SINCE <= version <= ALIGNED_UNTIL:
        return None
    if not any(group.state for group in pool.groups):
        return None
    block = max((group.block for group in pool.groups if not group.state), default=0)
    if options.batched >= block * NEARLY:
        return None
    least = ceil(block / 1024) * 1024
    return Refusal(
        why=f"max-num-batched-tokens {options.batched} is less than a block of its KV cache, about "
        f"{block} tokens, with mamba-cache-mode align",
        fix=f"set max-num-batched-tokens: {least} or more, or remove mamba-cache-mode",
    )


def _estimate_rank_weights(model: ModelProfile, options: ServeOptions) -> Interval | None:
    """Return the weights of a rank; a built-in draft counts only where it is asked for."""
    if model.weights is None:
        return None
    whole = model.weights.resident
    drafts = model.weights.drafts
    if not _uses_built_in_draft(options):
        whole = Interval.of(whole.low - drafts.low, whole.high - drafts.high)
    return whole.times(1 / options.nodes)


def _uses_built_in_draft(options: ServeOptions) -> bool:
    """Return whether drafts come from layers of the checkpoint; n-grams need none."""
    speculation = options.speculation
    return (
        speculation is not None
        and speculation.model is None
        and not speculation.method.startswith(LOOKUPS)
    )


def _estimate_block_pool(model: ModelProfile, options: ServeOptions) -> BlockPool:
    if model.shape is None:
        raise UnknownFigureError("unknown KV cache: config.json not found")
    if options.blocks_set:  # vLLM then ignores util and bytes; a block's size is the backend's
        raise UnknownFigureError("unknown KV cache: num-gpu-blocks-override sets its blocks")
    speculation = options.speculation
    built_in = _uses_built_in_draft(options)
    drafts = model.shape.draft_layers if built_in else 0
    if (compressed := model.shape.compressed) is not None and options.pp == 1:
        if speculation is not None and built_in and speculation.method == DSPARK:
            drafts = compressed.dspark_layers or drafts
        return build_compressed_pool(
            compressed, options.kv_dtype, drafts=drafts, asynchronous=options.asynchronous
        )
    if speculation is not None and built_in and speculation.method in BLOCK_DRAFTS:
        raise UnknownFigureError(
            f"unknown KV cache of the {speculation.method} draft in the checkpoint"
        )
    rows = list_layer_caches(
        model.shape,
        options.kv_dtype,
        tp=options.tp,
        pp=options.pp,
        drafts=drafts,
        drafted=speculation.tokens if speculation else 0,
        prefixes=options.prefixes,
    )
    if model.draft_shape is not None:
        rows += list_layer_caches(model.draft_shape, options.kv_dtype, tp=options.tp)
    unit = POOLED_UNIT if model.shape.pooled_index is not None else BLOCK
    return build_block_pool(rows, block=unit)
