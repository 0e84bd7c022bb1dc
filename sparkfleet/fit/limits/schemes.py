"""The blocks or groups of weights that share a scale, as quantization_config has them; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkfleet.fit.precision import ABOVE, matches_module, split_patterns

COMPRESSED = "compressed-tensors"
INTEGERS = ("awq", "gptq")
NVFP4 = "nvfp4"
NVFP4_GROUP = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """A scale for `rows` (outputs) by `columns` (inputs); `method` says who divides it.

    `ordered` columns are sorted (act-order), so that every rank has the scales of all.
    """

    method: str
    rows: int
    columns: int
    ordered: bool = False

    @property
    def blocks(self) -> bool:
        """Whether it has blocks in both directions, as FP8 has."""
        return self.rows > 1

    @property
    def noun(self) -> str:
        """The word for them in messages."""
        return "blocks" if self.blocks else "groups"


def find_scheme(config: Mapping[str, Any], modules: Sequence[str], layer: int) -> Scheme | None:
    """Return the scheme of modules of a layer; None where there is none, or it is not known."""
    method = str(config.get("quant_method") or "").lower()
    if method == "fp8":
        return _build_scheme(method, config.get("weight_block_size"))
    if method == COMPRESSED:
        return _find_compressed_scheme(config, modules, layer)
    if method in INTEGERS:
        size = config.get("group_size") or config.get("q_group_size")
        ordered = bool(config.get("desc_act"))
        return _build_scheme(method, [1, size], ordered=ordered)
    if method.startswith("modelopt") and str(config.get("quant_algo")).upper() == "NVFP4":
        return _build_scheme(NVFP4, [1, NVFP4_GROUP])
    return None


def _build_scheme(method: str, sizes: Any, *, ordered: bool = False) -> Scheme | None:
    if not isinstance(sizes, list) or len(sizes) != 2:
        return None
    if not all(type(size) is int and size > 0 for size in sizes):
        return None
    return Scheme(method=method, rows=sizes[0], columns=sizes[1], ordered=ordered)


def _find_compressed_scheme(
    config: Mapping[str, Any], modules: Sequence[str], layer: int
) -> Scheme | None:
    groups = config.get("config_groups")
    for group in groups.values() if isinstance(groups, dict) else ():
        weights = group.get("weights") if isinstance(group, dict) else None
        if not isinstance(weights, dict) or not _is_target(group.get("targets"), modules, layer):
            continue
        if weights.get("strategy") == "block":
            return _build_scheme(COMPRESSED, weights.get("block_structure"))
        if weights.get("type") == "int" and weights.get("strategy") == "group":
            ordered = weights.get("actorder") not in (None, "static", "weight")
            return _build_scheme(COMPRESSED, [1, weights.get("group_size")], ordered=ordered)
        return None
    return None


def _is_target(targets: Any, modules: Sequence[str], layer: int) -> bool:
    """Return whether a group is for the modules: all that are linear, or patterns of names."""
    if not isinstance(targets, list):
        return False
    names = [f"{above}.{layer}.{module}" for above in ABOVE for module in modules]
    plain, wild = split_patterns(targets)
    return "Linear" in plain or any(
        matches_module(text, name) for text in wild if text[:3] == "re:" for name in names
    )
