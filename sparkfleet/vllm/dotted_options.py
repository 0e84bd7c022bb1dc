"""Dotted options such as ``--compilation-config.mode 1``, as sparkfleet writes them and vLLM reads.

vLLM makes one JSON object of them before it reads any other option: `parse_args` of
FlexibleArgumentParser in vllm/utils/argparse_utils.py, 0.10.2 to 0.33.0.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sparkfleet.model import EMPTY
from sparkfleet.values import parse_json
from sparkfleet.vllm.numbers import parse_human_readable_int

ADD = "+"  # after a dotted key: the items of its value are added to the list


def format_word(value: Any) -> str:
    """Return a value as one word of a command line."""
    if isinstance(value, Mapping | list | tuple | bool):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)
    return str(value)


def format_dotted_value(option: str, value: Any) -> str:
    """Return the one word that a dotted option takes; its list is JSON, or ``a,b`` after a +."""
    if option.endswith(ADD) and isinstance(value, list | tuple):
        return ",".join(map(format_word, value))
    return format_word(value)


def merge_dotted_values(
    options: Iterable[tuple[Sequence[str], Any]], *, base: Mapping[str, Any] = EMPTY
) -> dict[str, Any]:
    """Return the object that dotted keys and their values, in their order, make of `base`."""
    merged = copy.deepcopy(dict(base))
    for path, value in options:
        *parents, key = path
        text = format_dotted_value(key, value)
        item: Any = text.split(",") if key.endswith(ADD) else _parse_dotted_value(text)
        for name in (key.removesuffix(ADD), *reversed(parents)):
            item = {name: item}
        _update(merged, item)
    return merged


def remove_dotted_keys(base: Mapping[str, Any], paths: Iterable[Sequence[str]]) -> dict[str, Any]:
    """Return `base` without what is under some dotted keys."""
    left = copy.deepcopy(dict(base))
    for *parents, key in paths:
        target: Any = left
        for name in parents:
            target = target.get(name) if isinstance(target, dict) else None
        if isinstance(target, dict):
            target.pop(key, None)
    return left


def _update(target: dict[str, Any], items: Mapping[str, Any]) -> None:
    """Lay `items` over an object: objects are merged, lists added to, all others replaced."""
    for key, item in items.items():
        earlier = target.get(key)
        if isinstance(item, dict) and isinstance(earlier, dict):
            _update(earlier, item)
        elif isinstance(item, list) and isinstance(earlier, list):
            earlier += item
        else:
            target[key] = item


def _parse_dotted_value(text: str) -> Any:
    """Return the value of a dotted key: JSON, a number such as 64K, or text."""
    for parse in (parse_json, parse_human_readable_int):
        try:
            return parse(text)
        except ValueError:
            continue
    return text
