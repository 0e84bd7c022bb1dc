"""From `vllm_args` to words of `vllm serve`.

Argument lists, never strings, so that nothing is quoted twice (cases C32, C34).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sparkfleet.errors import RecipeError, Where

OURS = {
    "host": "the endpoint listens on all addresses of the head",
    "port": "vllm_port",
    "model": "vllm_model",
    "served-model-name": "vllm_served_name",
    "tensor-parallel-size": "--tp",
    "pipeline-parallel-size": "--pp",
    "distributed-executor-backend": "chosen by --tp, --pp and the engine",
    "nnodes": "--tp and --pp",
    "node-rank": "the rank order of the inventory",
    "master-addr": "the head's fabric address",
    "master-port": "chosen by sparkfleet",
    "headless": "chosen by rank",
}
SHORT = {"tp": "tensor-parallel-size", "pp": "pipeline-parallel-size", "n": "nnodes"}


def flags(args: Mapping[str, Any], *, where: Where | None = None) -> tuple[str, ...]:
    """Return the words for `args`.

    A scalar is ``--name value``, a list ``--name a b``, true ``--name``, false ``--no-name``, null
    nothing, a mapping ``--name`` with its JSON. Raises RecipeError for an option that is ours.
    """
    return tuple(word for name, value in args.items() for word in _words(name, value, where))


def _words(name: str, value: Any, where: Where | None) -> Iterator[str]:
    option = name.lstrip("-").replace("_", "-")
    option = SHORT.get(option, option)
    if option in OURS:
        raise RecipeError(
            f"vllm_args: {name} is set by sparkfleet itself",
            where=where,
            hint=f"take it out; this is decided by: {OURS[option]}",
        )
    if value is None:
        return
    if value is False:
        yield f"--no-{option}"
        return
    yield f"--{option}"
    if isinstance(value, Mapping):
        yield json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    elif isinstance(value, list | tuple):
        yield from (str(item) for item in value)
    elif value is not True:
        yield str(value)
