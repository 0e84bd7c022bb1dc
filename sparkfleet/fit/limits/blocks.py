"""Whether ``--tp`` cuts through the blocks or groups of weights that share a scale; pure.

vLLM stops where the part of a rank does not hold whole blocks of FP8 weights: in experts, in the
input of a row-parallel matrix and in the output of a column-parallel one
(`validate_fp8_block_shape` and its variant for experts, in quantization/utils/fp8_utils.py of
0.32). Merged matrices, such as q, k and v, are exempt (linear.py, since 0.14), but for
compressed-tensors, which checks blocks since 0.12. With ``--enable-expert-parallel`` a rank has
whole experts, but a share of a shared expert as before, unless there are several copies (``--dp``).

Since 0.29 experts of FP8 checkpoints may be cut where smaller blocks of 32 or more divide
everything (`refine_fp8_moe_block_shape`); since 0.31 a ``--moe-backend`` that is named may pad
them. After 0.23 the shared expert of DeepSeek V4 is padded (vllm#46001).

Groups of AWQ (auto_awq.py), of integers in compressed-tensors (compressed_tensors_wNa16.py) and of
ModelOpt's NVFP4 (modelopt.py) have to be whole in row-parallel matrices, 0.10 to 0.32. Of GPTQ, and
of experts, that depends on the kernel, so they only lead to a warning: moe_wna16.py halves groups
down to 32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from packaging.version import Version

from sparkfleet.fit.architecture import Architecture
from sparkfleet.fit.interval import UnknownFigureError
from sparkfleet.fit.limits.parts import V4, DividedPart, list_parts
from sparkfleet.fit.limits.schemes import COMPRESSED, INTEGERS, NVFP4, Scheme, find_scheme
from sparkfleet.fit.options import ServeOptions
from sparkfleet.fit.precision import is_left_out
from sparkfleet.vllm.releases import load_release_table, parse_version

REFINED_SINCE = Version("0.29.0")
PADDED_V4_SINCE = Version("0.24.0")
COMPRESSED_SINCE = Version("0.12.0")
HALVED_SINCE = Version("0.14.0")  # the kernel of moe_wna16 takes what halving makes
MIN_BLOCK = 32  # of the smaller blocks
MAX_LAYERS = 200  # looked at; no model has more


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """One part that is divided: `width` elements over `ranks`, in blocks or groups of `block`.

    `refused` says that vLLM stops; `sure` that this is known of the version that will run.
    """

    part: str
    width: int
    ranks: int
    block: int
    noun: str = "blocks"
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
            f"{self.ranks} does not divide the {self.width} of its {self.part} into whole "
            f"{self.noun} of {self.block} ({self.sentence})"
        )


def list_divisions(
    shape: Architecture, options: ServeOptions, copies: int = 1
) -> tuple[Division, ...]:
    """Return how blocks are divided, and groups that are cut; nothing that is not known."""
    found = tuple(dict.fromkeys(_find_divisions(shape, options, copies)))
    if not any(division.refused for division in found):
        return found
    fix = _suggest_division(shape, options, copies)
    return tuple(replace(item, fix=fix) if item.refused else item for item in found)


def _find_divisions(shape: Architecture, options: ServeOptions, copies: int) -> Iterator[Division]:
    if options.tp == 1 or options.online not in (None, "fp8"):
        return
    merged = shape.quantization.get("quant_method") == COMPRESSED
    for part in list_parts(shape, options, copies, merged=merged):
        scheme = _find_part_scheme(shape, part)
        if scheme is None or part.width % part.ranks or part.ranks == 1:
            continue
        share = part.width // part.ranks
        sizes = [scheme.rows if side == "output" else scheme.columns for side in part.sides]
        block = next((size for size in sizes if share % size), sizes[-1])
        whole = share % block == 0
        if whole and not _is_reported(part, scheme):
            continue
        if not whole and _accepts_partial(shape, options, part, scheme):
            continue
        yield Division(
            part=part.name,
            width=part.width,
            ranks=part.ranks,
            block=block,
            noun=scheme.noun,
            refused=not whole,
            sure=_is_sure(options, part, scheme),
        )


def _find_part_scheme(shape: Architecture, part: DividedPart) -> Scheme | None:
    """Return what a part is quantized by in all layers, as far as can be known."""
    layers = range(min(shape.layers or 1, MAX_LAYERS))
    try:
        scheme = find_scheme(shape.quantization, part.modules, layers[-1])
        if scheme is None:
            return None
        left_out = any(is_left_out(shape.quantization, part.modules, layer) for layer in layers)
    except UnknownFigureError:
        return None
    return None if left_out else scheme


def _is_reported(part: DividedPart, scheme: Scheme) -> bool:
    """Return whether a division without remainder is worth reporting."""
    return scheme.blocks and (part.routed or part.name in ("shared expert", "MLP"))


def _is_sure(options: ServeOptions, part: DividedPart, scheme: Scheme) -> bool:
    version = parse_version(options.vllm)
    if version is None or version > load_release_table("options").releases[-1]:
        return False
    if scheme.method == COMPRESSED:
        known = scheme.blocks or not (part.routed or scheme.ordered)
        return known and version >= COMPRESSED_SINCE
    if scheme.blocks:
        return True
    return scheme.method in ("awq", NVFP4) and not part.routed


def _accepts_partial(
    shape: Architecture, options: ServeOptions, part: DividedPart, scheme: Scheme
) -> bool:
    """Return whether vLLM does, or may, load a part that is not whole."""
    version = parse_version(options.vllm)
    if not part.routed:
        is_v4 = (shape.model_type or "").startswith(V4)
        return is_v4 and (version is None or version >= PADDED_V4_SINCE)
    share = part.width // part.ranks
    if not scheme.blocks:
        recent = version is None or version >= HALVED_SINCE
        halved = math.gcd(scheme.columns, share, shape.hidden or scheme.columns) >= MIN_BLOCK
        return scheme.method in INTEGERS and recent and halved
    if scheme.method == COMPRESSED or (version is not None and version < REFINED_SINCE):
        return False
    if options.moe_backend != "auto" or not shape.hidden:
        return True
    return math.gcd(scheme.rows, scheme.columns, share, shape.hidden) >= MIN_BLOCK


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
