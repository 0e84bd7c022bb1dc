"""Convert `vllm_args` and `vllm_raw_args` to arguments of `vllm serve`; options.py reads them.

Argument lists, never strings, so that nothing is quoted twice (eugr/spark-vllm-docker#111).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sparkfleet.errors import RecipeError, Where
from sparkfleet.vllm.dotted_options import format_dotted_value, format_word
from sparkfleet.vllm.option_names import spell_option
from sparkfleet.vllm.option_types import load_option_forms
from sparkfleet.vllm.options import lay_dotted_keys, list_repeated_items
from sparkfleet.vllm.owned_options import OWNED_OPTIONS, find_owned_option


def format_vllm_args(args: Mapping[str, Any], *, where: Where | None = None) -> tuple[str, ...]:
    """Return the words for `args`.

    A scalar is ``--name value``, a list ``--name a b``, true ``--name``, false ``--no-name`` or,
    where there is no such flag, nothing. Null is nothing, ``{repeat: [a, b]}`` is ``--name a
    --name b``, any other mapping ``--name`` with its JSON; so is a list of a dotted option, and of
    some others. Raises RecipeError for an option that sparkfleet sets itself.
    """
    arguments: list[str] = []
    for name, value in lay_dotted_keys(args).items():
        _refuse_owned_option("vllm_args", spell_option(name, value)[0], where)
        arguments += format_vllm_option(name, value)
    return tuple(arguments)


def format_vllm_option(name: str, value: Any) -> tuple[str, ...]:
    """Return the words for one option of `vllm_args`, which may be named in any way."""
    items = list_repeated_items(value)
    options = (spell_option(name, item) for item in ([value] if items is None else items))
    return tuple(word for option, item in options for word in _format_option(option, item))


def check_raw_args(arguments: Sequence[str], *, where: Where | None = None) -> tuple[str, ...]:
    """Return `vllm_raw_args` unchanged; raises RecipeError for an option that sparkfleet sets."""
    for argument in arguments:
        _refuse_owned_option("vllm_raw_args", argument, where)
    return tuple(arguments)


def _refuse_owned_option(variable: str, argument: str, where: Where | None) -> None:
    if option := find_owned_option(argument):
        raise RecipeError(
            f"{variable}: {argument.partition('=')[0]} is set by sparkfleet itself",
            where=where,
            hint=f"remove it; it is set by: {OWNED_OPTIONS[option]}",
        )


def _format_option(option: str, value: Any) -> Iterator[str]:
    if value is None:
        return
    if isinstance(value, bool):
        yield from _format_flag(option, value=value)
    elif isinstance(value, list | tuple) and not _takes_one_word(option):
        yield from (option, *map(format_word, value))
    elif (text := format_dotted_value(option, value)).startswith("-"):
        yield f"{option}={text}"  # as a word of its own it would be an option
    else:
        yield from (option, text)


def _takes_one_word(option: str) -> bool:
    return "." in option or option.removeprefix("--") in load_option_forms().json_lists


def _format_flag(option: str, *, value: bool) -> Iterator[str]:
    if "." in option:  # a key of a JSON object takes its value as a word
        yield from (option, format_word(value))
    elif value:
        yield option
    elif (name := option.removeprefix("--")) not in load_option_forms().only_true:
        yield f"--no-{name}"
