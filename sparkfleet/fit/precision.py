"""How many bytes a parameter has, by its role, as `quantization_config` says; pure.

A device that can do FP4 changes nothing about weights that are not stored so: nothing here asks
what the device can do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import Any

from sparkfleet.fit.architecture import Architecture
from sparkfleet.fit.interval import Interval, UnknownFigureError
from sparkfleet.fit.kv_cache import BYTES
from sparkfleet.fit.parameters import ParameterRole, Part
from sparkfleet.regular_expressions import compile_regex, repeats_at_most

NVFP4 = 4 / 8 + 1 / 16  # four bits, and a scale of eight for every sixteen
MXFP4 = 4 / 8 + 1 / 32
MAX_PATTERNS = 500  # with * or a regular expression; each is tried on every module
MAX_REGEXES = 50  # of them that repeat twice or more
MAX_REPEATS = 3  # of a regular expression: then the names of modules take a millisecond
LONGEST_PATTERN = 1000  # characters
SCALE = 2.0  # bytes, for every group of AWQ, GPTQ and integer schemes
NAMED = {"nvfp4": NVFP4, "fp8": 1.0, "mxfp4": MXFP4, "w4a16_nvfp4": NVFP4}
ONLINE = {"fp8": 1.0}  # --quantization that converts weights of 16 bits while they load
MODULES = {  # what checkpoints call a role's modules, below a layer
    ParameterRole.ATTENTION: ("self_attn.q_proj", "mixer.q_proj"),
    ParameterRole.LINEAR: ("linear_attn.in_proj_qkv", "linear_attn.in_proj_qkvz"),
    ParameterRole.MAMBA: ("mixer.in_proj", "mamba.in_proj"),
    ParameterRole.DENSE: ("mlp.down_proj", "mixer.down_proj"),
    ParameterRole.SHARED: (
        "mlp.shared_expert.down_proj",
        "mlp.shared_experts.down_proj",
        "mixer.shared_experts.down_proj",
    ),
    ParameterRole.ROUTED: (
        "mlp.experts.0.down_proj",
        "experts.0.down_proj",
        "moe.experts.0.down_proj",
        "mixer.experts.0.down_proj",
    ),
}
ABOVE = ("model.layers", "model.language_model.layers", "language_model.model.layers", "backbone")


def estimate_part_bytes(shape: Architecture, part: Part, online: str | None = None) -> Interval:
    """Return the bytes of `part`; `online` is a ``--quantization`` that converts while loading.

    It halves only weights of 16 bits: what is stored in fewer stays as it is. Raises
    UnknownFigureError for an unknown scheme.
    """
    plain = BYTES.get(shape.dtype or "")
    if plain is None:
        raise UnknownFigureError("unknown bytes of a weight: config.json has no dtype")
    if part.role not in MODULES:
        return Interval.of(part.count * plain)
    if shape.quantization:
        left_out = part.layer is not None and is_left_out(
            shape.quantization, MODULES[part.role], part.layer
        )
        return (
            Interval.of(plain).times(part.count)
            if left_out
            else _estimate_quantized_bytes(shape, part, plain)
        )
    return Interval.of(part.count * (find_online_bytes(online) or plain))


def find_online_bytes(online: str | None) -> float | None:
    """Return the bytes that `online` makes of a weight of 16 bits; None where it makes nothing.

    Raises UnknownFigureError.
    """
    if online is None:
        return None
    if online not in ONLINE:
        raise UnknownFigureError(
            f"cannot determine what --quantization {online} makes of 16-bit weights",
            hint="supported for 16-bit weights: " + ", ".join(ONLINE),
        )
    return ONLINE[online]


def _estimate_quantized_bytes(shape: Architecture, part: Part, plain: float) -> Interval:
    method = str(shape.quantization.get("quant_method", "")).lower()
    if method == "gpt_oss_mxfp4" or (method == "mxfp4" and part.role is not ParameterRole.ROUTED):
        return Interval.of(part.count * plain)  # OpenAI quantizes experts only
    sizes = sorted(_list_scheme_bytes(shape.quantization))
    if not sizes:
        raise UnknownFigureError(f"unknown bytes of weights quantized by {method or '?'!r}")
    return Interval.of(sizes[0], sizes[-1]).times(part.count)


def _list_scheme_bytes(config: Mapping[str, Any]) -> Iterator[float]:
    """Yield the bytes of a weight in every scheme of the config."""
    algorithm = str(config.get("quant_algo") or config.get("quant_method") or "").lower()
    groups = config.get("config_groups")
    if algorithm == "mixed_precision":
        yield from (NVFP4, BYTES["bfloat16"])
    elif isinstance(groups, Mapping):
        schemes = [group.get("weights") for group in groups.values() if isinstance(group, Mapping)]
        yield from (
            _compute_scheme_bytes(scheme) for scheme in schemes if isinstance(scheme, Mapping)
        )
    elif algorithm in NAMED:
        yield NAMED[algorithm]
    elif isinstance(config.get("bits"), int):
        yield _compute_scheme_bytes(
            {"num_bits": config["bits"], "group_size": config.get("group_size")}
        )


def _compute_scheme_bytes(scheme: Mapping[str, Any]) -> float:
    bits = scheme.get("num_bits")
    group = scheme.get("group_size")
    if not isinstance(bits, int) or bits < 1:
        raise UnknownFigureError("unknown bytes of a weight: the scheme has no num_bits")
    if bits == 4 and scheme.get("type") == "float":
        return NVFP4 if group == 16 else MXFP4
    return bits / 8 + (SCALE / group if isinstance(group, int) and group > 0 else 0)


def is_left_out(config: Mapping[str, Any], suffixes: Sequence[str], layer: int) -> bool:
    """Return whether `quantization_config` leaves modules of a layer as they were.

    `suffixes` are what they may be called below the layer. Raises UnknownFigureError for too many
    patterns, and for an invalid one.
    """
    names = ("ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers")
    patterns = next((config[name] for name in names if config.get(name)), ())
    if not isinstance(patterns, list):
        return False
    modules = _list_modules(suffixes, layer)
    plain, wild = split_patterns(patterns)
    if any(not plain.isdisjoint(_list_dotted_parts(module)) for module in modules):
        return True
    return any(matches_module(pattern, module) for pattern in wild for module in modules)


def _list_modules(suffixes: Sequence[str], layer: int) -> list[str]:
    modules = [f"{above}.{layer}.{suffix}" for above in ABOVE for suffix in suffixes]
    return modules + [f"backbone.layers.{layer}.{suffix}" for suffix in suffixes]


class _SameList:
    """A list as a key: the same list, not an equal one, which would be compared at each use."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameList) and self.items is other.items

    def __hash__(self) -> int:
        return id(self.items)


def split_patterns(patterns: list[Any]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the names of modules, and the patterns, of which each costs time for each module.

    Raises UnknownFigureError for patterns that would take too long.
    """
    return _split_same_list(_SameList(patterns))


@lru_cache(maxsize=8)
def _split_same_list(patterns: _SameList) -> tuple[frozenset[str], tuple[str, ...]]:
    texts = [str(text) for text in patterns.items]
    wild = tuple(dict.fromkeys(text for text in texts if "*" in text or text[:3] == "re:"))
    if len(wild) > MAX_PATTERNS:
        raise UnknownFigureError(f"more than {MAX_PATTERNS} patterns in quantization_config")
    if any(len(text) > LONGEST_PATTERN for text in wild):
        raise UnknownFigureError(
            f"a pattern of more than {LONGEST_PATTERN} characters in quantization_config"
        )
    if sum(not repeats_at_most(text, 1) for text in wild if text[:3] == "re:") > MAX_REGEXES:
        raise UnknownFigureError(
            f"more than {MAX_REGEXES} regular expressions in quantization_config"
        )
    return frozenset(texts).difference(wild), wild


@lru_cache(maxsize=1 << 14)
def _list_dotted_parts(module: str) -> frozenset[str]:
    """Return ``a``, ``b`` and ``a.b`` of the module ``a.b``."""
    words = module.split(".")
    ends = range(1, len(words) + 1)
    return frozenset(".".join(words[begin:end]) for end in ends for begin in range(end))


def matches_module(pattern: str, module: str) -> bool:
    """Return whether a pattern, or a regular expression after ``re:``, has a module's name."""
    if pattern.startswith("re:"):
        return _compile_module_pattern(pattern[3:]).match(module) is not None
    return fnmatchcase(module, pattern)


@cache
def _compile_module_pattern(text: str) -> re.Pattern[str]:
    if not repeats_at_most(text, MAX_REPEATS):
        raise UnknownFigureError(
            f"a pattern in quantization_config may take forever to match: {text!r}"
        )
    try:
        return compile_regex(text)
    except re.error as error:
        raise UnknownFigureError(f"invalid pattern in quantization_config: {text!r}") from error
