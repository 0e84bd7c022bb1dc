"""From `vllm_args` and `vllm_raw_args` to words of `vllm serve`.

Argument lists, never strings, so that nothing is quoted twice (cases C32, C34).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sparkfleet.errors import RecipeError, Where

SECRET = "in vllm_env, from a file; a command line is seen by every user of the host"  # noqa: S105 - words
OWNED_OPTIONS = {
    "host": "the endpoint listens on all addresses of the head",
    "port": "vllm_port",
    "model": "vllm_model",
    "served-model-name": "vllm_served_name",
    "tensor-parallel-size": "--tp",
    "pipeline-parallel-size": "--pp",
    "distributed-executor-backend": "vllm_executor",
    "nnodes": "--tp and --pp",
    "node-rank": "the rank order of the inventory",
    "master-addr": "the head's fabric address",
    "master-port": "vllm_master_port",
    "headless": "chosen by rank",
    "api-key": f"VLLM_API_KEY {SECRET}",
    "hf-token": f"HF_TOKEN {SECRET}",
}
# vLLM's own short forms (arg_utils.py of 0.32), and what people write with two dashes
SHORT_OPTIONS = {
    "tp": "tensor-parallel-size",
    "pp": "pipeline-parallel-size",
    "n": "nnodes",
    "r": "node-rank",
}
REPEAT = "repeat"  # the only key of a mapping whose items are each given the option anew


def format_vllm_args(args: Mapping[str, Any], *, where: Where | None = None) -> tuple[str, ...]:
    """Return the words for `args`.

    A scalar is ``--name value``, a list ``--name a b``, true ``--name``, false ``--no-name``, null
    nothing, ``{repeat: [a, b]}`` is ``--name a --name b``, any other mapping ``--name`` with its
    JSON. Raises RecipeError for an option that is ours.
    """
    return tuple(
        argument
        for name, value in args.items()
        for argument in _format_option(_normalize_option(name, where), value)
    )


def check_raw_args(arguments: Sequence[str], *, where: Where | None = None) -> tuple[str, ...]:
    """Return the words of `vllm_raw_args` as they are; raises RecipeError for one of ours."""
    for argument in arguments:
        if argument.startswith("-"):
            _refuse_owned_option("vllm_raw_args", argument, where)
    return tuple(arguments)


def find_owned_option(argument: str) -> str:
    """Return which option of ours a word of a command line is, or "".

    In every spelling that vLLM's parser takes: with a value after ``=``, with underscores, short,
    short with its number, shortened, negated.
    """
    name = argument.partition("=")[0]
    short = not name.startswith("--")
    name = name.lstrip("-").partition(".")[0].replace("_", "-").removeprefix("no-")
    if name in SHORT_OPTIONS:
        return SHORT_OPTIONS[name]
    if short and name[:1] in SHORT_OPTIONS and name[1:].isdecimal():
        return SHORT_OPTIONS[name[0]]
    return next((option for option in OWNED_OPTIONS if name and option.startswith(name)), "")


def find_option_owner(argument: str) -> str:
    """Return what decides the option that a word of a command line is; "" for one of the user's."""
    return OWNED_OPTIONS.get(find_owned_option(argument), "")


def _normalize_option(name: str, where: Where | None) -> str:
    """Return an option of `vllm_args` as a command line has it."""
    if name.startswith("-") and not name.startswith("--"):
        _refuse_owned_option("vllm_args", name, where)
        return name
    head, dot, path = name.lstrip("-").partition(".")
    option = f"--{head.replace('_', '-')}{dot}{path}"
    _refuse_owned_option("vllm_args", option, where)
    return option


def _refuse_owned_option(variable: str, argument: str, where: Where | None) -> None:
    if option := find_owned_option(argument):
        raise RecipeError(
            f"{variable}: {argument.partition('=')[0]} is set by sparkfleet itself",
            where=where,
            hint=f"take it out; this is decided by: {OWNED_OPTIONS[option]}",
        )


def _format_option(option: str, value: Any) -> Iterator[str]:
    if value is None:
        return
    if value is False:
        yield f"--no-{option.removeprefix('--')}"
    elif value is True:
        yield option
    elif isinstance(value, Mapping) and isinstance(value.get(REPEAT), list) and len(value) == 1:
        for item in value[REPEAT]:
            yield from _format_option(option, item)
    elif isinstance(value, list | tuple):
        yield from (option, *map(_format_option_value, value))
    elif (text := _format_option_value(value)).startswith("-"):
        yield f"{option}={text}"  # as a word of its own it would be an option
    else:
        yield from (option, text)


def _format_option_value(value: Any) -> str:
    if isinstance(value, Mapping | list | tuple | bool):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return str(value)
