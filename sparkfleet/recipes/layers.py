"""Keys of mappings that are laid over each other: which key of a layer replaces which below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkfleet.vllm.options import identify_option, list_covered_options, read_command_line

OF_OPTIONS = ("vllm_args", "why")  # mappings whose keys name options, in any spelling


def match_keys(name: str, below: Mapping[Any, Any], above: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return each key of `below` that a key of `above` replaces, with the latter.

    `name` is that of the mapping. Options are the same in every spelling that vLLM takes, and one
    that is given whole replaces those that set keys of it: ``{sc: null}`` unsets
    ``speculative_config.model`` and ``spec-model``.
    """
    if name not in OF_OPTIONS:
        return {key: key for key in below if key in above}
    keys = {option: key for key in above for option in list_covered_options(str(key), above[key])}
    keys |= {identify_option(str(key), value): key for key, value in above.items()}
    matches = {}
    for key, value in below.items():
        option = identify_option(str(key), value)
        beginnings = (option[:end] for end in range(len(option), 0, -1))
        found = next((begin for begin in beginnings if begin in keys), None)
        if key in above:
            matches[key] = key
        elif found is not None:
            matches[key] = keys[found]
    return matches


def list_replaced_options(below: Mapping[Any, Any], raw_args: Sequence[Any]) -> frozenset[Any]:
    """Return the keys of `below`, which name options, that words of a layer above replace.

    So `vllm_raw_args` of an inventory win over an option of the recipe, as its `vllm_args` do.
    """
    options = read_command_line([str(word) for word in raw_args])
    above = {option.flag: option.value for option in options}
    return frozenset(match_keys("vllm_args", below, above))
