"""The blocks of DeepSeek V4: compressed entries, a sliding window, and states of the compressors.

Each layer keeps the last 128 tokens, packed in 584 bytes each. A layer of ratio 4 or 128 has in
addition an entry for so many tokens, and a state of those that are not compressed yet; one of
ratio 4 has an index too. Pages are rounded up to 576 bytes. A block of any group has the bytes of
the largest. See `DeepseekV4SWACache`, `CompressorStateCache` and `get_kv_cache_spec` in vLLM's
vllm/models/deepseek_v4; groups and pages are those in
https://github.com/vllm-project/vllm/issues/54703. Tensor parallelism divides none of it.
"""

from __future__ import annotations

from sparkfleet.fit.architecture import Compressed
from sparkfleet.fit.interval import UnknownFigureError
from sparkfleet.fit.kv_blocks import BlockPool, KVCacheGroup
from sparkfleet.fit.kv_cache import PACKED_TYPES

BLOCK = 256  # tokens of a compressed block
WINDOW = 128
WINDOW_BLOCK = 64
ENTRY = 584  # bytes: 448 of 8 bits, 64 of 16, and their scales
KEY = 132  # bytes of the index: 128 of 8 bits and a scale
ALIGNED = 576
DIM = 512
INDEX_DIM = 128
FLOAT = 4
OVERLAP = 2  # ratio 4 compresses overlapping windows
STATE_BLOCKS = {4: 4, 128: 8}  # tokens
ASYNCHRONOUS = 2  # steps under way at once, each with its batch


def build_compressed_pool(
    cache: Compressed, dtype: str, *, drafts: int = 0, asynchronous: bool = True
) -> BlockPool:
    """Return the blocks of the pool, with `drafts` layers of the checkpoint's draft.

    Raises UnknownFigureError for a `dtype` that is not packed in 8 bits, and for other counts of
    layers than those of which the groups are known.
    """
    if dtype not in PACKED_TYPES:
        raise UnknownFigureError(f"unknown size of DeepSeek V4's KV cache in {dtype}")
    fine = cache.ratios.count(4)
    coarse = cache.ratios.count(128)
    windows = len(cache.ratios) + drafts
    most = max(fine, coarse)
    if windows // most != 2:
        raise UnknownFigureError(
            f"unknown groups of {windows} sliding windows next to {most} compressed layers"
        )
    deepest = -(-windows // 2)
    pages = (_page(BLOCK // 4, ENTRY), _page(BLOCK // 4, KEY), _page(BLOCK // 128, ENTRY))
    steps = ASYNCHRONOUS if asynchronous else 1
    groups = (
        KVCacheGroup(block=BLOCK),
        *[KVCacheGroup(block=WINDOW_BLOCK, window=WINDOW, steps=steps)] * 2,
        KVCacheGroup(block=STATE_BLOCKS[4], window=OVERLAP * 4, steps=steps),
        KVCacheGroup(block=STATE_BLOCKS[128], window=128, steps=steps),
    )
    sizes = (
        fine * (pages[0] + pages[1]) + coarse * pages[2],
        deepest * _page(WINDOW_BLOCK, ENTRY),
        fine * (_state_page(4, OVERLAP * DIM) + _state_page(4, OVERLAP * INDEX_DIM)),
        coarse * _state_page(128, DIM),
    )
    return BlockPool(
        groups=groups, block_bytes=max(sizes), checked_bytes=sum(pages) * max(most, deepest)
    )


def _page(entries: int, size: int) -> int:
    return -(-entries * size // ALIGNED) * ALIGNED


def _state_page(ratio: int, width: int) -> int:
    """Return the bytes of a block of states: keys and scores of `width`, for each token."""
    return _page(STATE_BLOCKS[ratio], 2 * width * FLOAT)
