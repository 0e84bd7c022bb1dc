"""Whether ``--tp`` cuts through the blocks of weights that are quantized in blocks; pure.

`weight_block_size` of an FP8 checkpoint is the size of the blocks that share a scale. vLLM stops
where the part of a rank does not hold whole blocks: for experts, and for the input of the last
matrix of an MLP or a shared expert (`validate_fp8_block_shape` and its variant for experts, in
quantization/utils/fp8_utils.py of 0.33). Matrices that vLLM merges, such as q, k and v, are exempt
(linear.py). With ``--enable-expert-parallel`` a rank has whole experts, but a share of a shared
expert as before, unless there are several copies (``--dp``).

Since 0.29 experts may be cut where smaller blocks of 32 or more divide everything
(`refine_fp8_moe_block_shape`); since 0.31 a ``--moe-backend`` that is named may pad them. After
0.23 the shared expert of DeepSeek V4 is padded (vllm#46001).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from packaging.version import Version

from sparkfleet.fit.architecture import Architecture
from sparkfleet.fit.interval import UnknownFigureError
from sparkfleet.fit.options import ServeOptions
from sparkfleet.fit.parameters import ParameterRole
from sparkfleet.fit.precision import is_left_out
from sparkfleet.vllm.releases import load_release_table, parse_version

REFINED_SINCE = Version("0.29.0")
PADDED_V4_SINCE = Version("0.24.0")
LEAST = 32  # of the smaller blocks
V4 = "deepseek_v4"
NAMES = {
    ParameterRole.ROUTED: "experts",
    ParameterRole.SHARED: "shared expert",
    ParameterRole.DENSE: "MLP",
}
MOST_LAYERS = 200  # looked at; no model has more


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """One part that is divided: `width` elements over `ranks`, in blocks of `block`.

    `refused` says that vLLM stops; `sure` that this is known of the version that will run.
    """

    part: str
    width: int
    ranks: int
    block: int
    refused: bool = False
    sure: bool = False
    fix: str = ""

    @property
    def sentence(self) -> str:
        """The division in numbers."""
        return f"{self.width} / {self.ranks} = {self.width / self.ranks:g}"

    @property
    def why(self) -> str:
        """The sentence of a refusal."""
        return (
            f"{self.ranks} does not divide the {self.width} of its {self.part} into whole blocks "
            f"of {self.block} ({self.sentence})"
        )


def list_divisions(
    shape: Architecture, options: ServeOptions, copies: int = 1
) -> tuple[Division, ...]:
    """Return how the blocks are divided; nothing of what config.json does not say."""
    found = tuple(_find_divisions(shape, options, copies))
    if not any(division.refused for division in found):
        return found
    fix = _suggest_division(shape, options, copies)
    return tuple(replace(item, fix=fix) if item.refused else item for item in found)


def _find_divisions(shape: Architecture, options: ServeOptions, copies: int) -> Iterator[Division]:
    blocks = _read_blocks(shape, options)
    if blocks is None or options.tp == 1:
        return
    version = parse_version(options.vllm)
    latest = load_release_table("options").releases[-1]
    for role, width in _list_widths(shape, options, copies):
        ranks = options.tp * (copies if role is ParameterRole.ROUTED else 1)
        if width % ranks or not _is_quantized(shape, role):
            continue
        checked = blocks if role is ParameterRole.ROUTED else blocks[1:]
        block = next((size for size in checked if width // ranks % size), checked[-1])
        whole = width // ranks % block == 0
        if not whole and _accepts_partial_blocks(shape, options, role, width // ranks):
            continue
        yield Division(
            part=NAMES[role],
            width=width,
            ranks=ranks,
            block=block,
            refused=not whole,
            sure=version is not None and version <= latest,
        )


def _read_blocks(shape: Architecture, options: ServeOptions) -> tuple[int, int] | None:
    """Return the rows and columns of a block; None where there are none."""
    config = shape.quantization
    sizes = config.get("weight_block_size")
    if config.get("quant_method") != "fp8" or options.online not in (None, "fp8"):
        return None
    if not isinstance(sizes, list) or len(sizes) != 2:
        return None
    if not all(type(size) is int and size > 0 for size in sizes):
        return None
    return sizes[0], sizes[1]


def _list_widths(
    shape: Architecture, options: ServeOptions, copies: int
) -> Iterator[tuple[ParameterRole, int]]:
    experts = shape.experts
    if experts is None:
        if shape.intermediate:
            yield ParameterRole.DENSE, shape.intermediate
        return
    other_format = shape.quantization.get("store_dtype") or (shape.model_type or "").startswith(V4)
    if experts.intermediate and not options.expert_parallel and not other_format:
        yield ParameterRole.ROUTED, experts.intermediate
    if experts.shared and not (options.expert_parallel and copies > 1):
        yield ParameterRole.SHARED, experts.shared
    if shape.intermediate and (experts.dense_first or experts.parallel_mlp):
        yield ParameterRole.DENSE, shape.intermediate


def _is_quantized(shape: Architecture, role: ParameterRole) -> bool:
    """Return whether no layer's part is left out of the quantization, as far as can be known."""
    layers = range(min(shape.layers or 1, MOST_LAYERS))
    try:
        return not any(is_left_out(shape.quantization, role, layer) for layer in layers)
    except UnknownFigureError:
        return False


def _accepts_partial_blocks(
    shape: Architecture, options: ServeOptions, role: ParameterRole, share: int
) -> bool:
    """Return whether vLLM does, or may, load a part that does not hold whole blocks."""
    version = parse_version(options.vllm)
    if role is not ParameterRole.ROUTED:
        is_v4 = (shape.model_type or "").startswith(V4)
        return is_v4 and (version is None or version >= PADDED_V4_SINCE)
    if version is not None and version < REFINED_SINCE:
        return False
    if options.moe_backend != "auto" or not shape.hidden:
        return True
    return math.gcd(*shape.quantization["weight_block_size"], share, shape.hidden) >= LEAST


def _suggest_division(shape: Architecture, options: ServeOptions, copies: int) -> str:
    """Return what to type: a size that divides, or expert parallelism where it is enough."""

    def works(changed: ServeOptions) -> bool:
        return not any(item.refused for item in _find_divisions(shape, changed, copies))

    sizes = [
        str(size)
        for size in range(1, options.tp)
        if not (shape.heads or 0) % size and works(replace(options, tp=size))
    ]
    smaller = f"use --tp {', '.join(sizes)}, and --pp for the other Sparks"
    if options.expert_parallel or not works(replace(options, expert_parallel=True)):
        return smaller
    return f"write in vllm_args: enable-expert-parallel: true; or {smaller}"
