"""The blocks of vLLM's KV cache, and the number of tokens that they hold; pure.

Layers that keep the same are a type; each type is split into groups of equal depth, and a block
holds `block` tokens of one group. Where types differ, blocks are made to be of equal bytes: a type
that needs less for a token gets more tokens in a block, a state fills a block alone. This is
vllm/v1/core/kv_cache_utils.py (`get_kv_cache_groups`, `unify_kv_cache_spec_page_size`) and, for
states, `HybridAttentionMambaModelConfig`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from sparkfleet.fit.kv_cache import LayerCache

BLOCK = 16  # tokens; vLLM's default on CUDA
POOLED_UNIT = 128  # tokens: 32 keys of a pool of four, as the kernel of GLM 5.3 Flash's index wants
NEARLY_EQUAL = 1.25  # counts of layers of two types that are still given one depth


@dataclass(frozen=True, slots=True, kw_only=True)
class KVCacheGroup:
    """Layers that share blocks: `block` tokens in each, or one state if `state`.

    A sequence needs `states` blocks of a state, and room for the batches of `steps` in a window.
    """

    block: int
    window: int | None = None
    state: bool = False
    states: int = 1
    steps: int = 1

    def blocks(self, tokens: int, batched: int) -> int:
        """Return the blocks that a sequence of `tokens` needs, `batched` of them in one step."""
        if self.state:
            return self.states
        if self.window is None:
            return ceil(tokens / self.block)
        return ceil(min(self.window - 1 + batched * self.steps, tokens) / self.block) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockPool:
    """The groups, and the bytes of one block of any of them.

    vLLM asks before a start for `checked_bytes` for each block of the longest sequence, where that
    is not the same (0 where it is).
    """

    groups: tuple[KVCacheGroup, ...]
    block_bytes: int
    checked_bytes: int = 0

    def blocks(self, size: float) -> int:
        """Return how many blocks `size` bytes are."""
        return int(size // self.block_bytes) if self.groups else 0

    def logged(self, size: float, *, length: int | None = None, batched: int = 0) -> int:
        """Return the tokens that vLLM's log names as the size of the GPU KV cache.

        With `length`, the longest sequence, as vLLM counts since 0.20: how many of them fit, times
        that length. Without, as up to 0.19: as if every group kept all tokens.
        """
        if length is not None:
            return int(self.concurrency(size, length, batched) * length)
        tokens = [group.block for group in self.groups if not group.state]
        return self.blocks(size) // len(self.groups) * min(tokens) if tokens else 0

    def concurrency(self, size: float, tokens: int, batched: int) -> float:
        """Return how many sequences of `tokens` fit in `size` bytes, as vLLM's log has it."""
        needed = sum(group.blocks(tokens, batched) for group in self.groups)
        return self.blocks(size) / needed if needed else 0.0

    def sequence_bytes(self, tokens: int, batched: int) -> int:
        """Return the bytes that vLLM asks for the blocks of one sequence."""
        size = self.checked_bytes or self.block_bytes
        return size * sum(group.blocks(tokens, batched) for group in self.groups)

    def sequences(self, size: float, tokens: int, batched: int) -> int:
        """Return how many sequences of `tokens` fit in `size` bytes at once."""
        needed = self.sequence_bytes(tokens, batched)
        return int(size // needed) if needed else 0

    def longest(self, size: float, batched: int, *, most: int) -> int:
        """Return the longest sequence that fits in `size` bytes, up to `most` tokens."""
        low = 0
        high = most
        while low < high:
            middle = (low + high + 1) // 2
            if self.sequence_bytes(middle, batched) <= size:
                low = middle
            else:
                high = middle - 1
        return low


def build_block_pool(rows: tuple[LayerCache, ...], *, block: int = BLOCK) -> BlockPool:
    """Return the pool for layers that keep `rows`, with `block` tokens in the smallest block."""
    types = Counter(rows)
    if not types:
        return BlockPool(groups=(), block_bytes=0)
    if len({(row.window, bool(row.state_bytes)) for row in types}) == 1:
        return _build_uniform_pool(rows, block)
    page = _compute_page_bytes(types, block)
    counts = [count for row, count in types.items() if not row.alone]
    fewest = min(counts)
    most = max(counts)
    depth = most if most < fewest * NEARLY_EQUAL else fewest
    groups = tuple(_split_cache_groups(types, page, depth, block))
    return BlockPool(groups=groups, block_bytes=page * depth)


def _build_uniform_pool(rows: tuple[LayerCache, ...], block: int) -> BlockPool:
    state = bool(rows[0].state_bytes)
    size = sum(row.state_bytes or row.token_bytes * block for row in rows)
    group = KVCacheGroup(block=1 if state else block, window=rows[0].window, state=state)
    return BlockPool(groups=(group,), block_bytes=size)


def _compute_page_bytes(types: Counter[LayerCache], block: int) -> int:
    """Return the bytes of one layer's part of a block: the most that any type needs.

    Attention takes blocks of so many tokens that a state fits into one.
    """
    widest = max(row.token_bytes for row in types)
    state = max(row.state_bytes for row in types)
    tokens = block * max(1, ceil(state / (widest * block))) if widest else 1
    side = max(row.side_bytes for row in types)
    return max(widest * tokens, state) + side * tokens


def _split_cache_groups(
    types: Counter[LayerCache], page: int, depth: int, block: int
) -> Iterator[KVCacheGroup]:
    for row, count in types.items():
        size = row.token_bytes + row.side_bytes
        tokens = page // size // block * block if size else 1
        group = KVCacheGroup(
            block=tokens, window=row.window, state=bool(row.state_bytes), states=row.states
        )
        yield from [group] * ceil(count / depth)
