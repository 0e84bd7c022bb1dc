"""A model from what the program `onhost/shape.py`, or a reader here, saw of its folder; pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from sparkfleet.fit.config import Architecture, parse
from sparkfleet.fit.model import Model
from sparkfleet.fit.options import Start
from sparkfleet.fit.span import CannotTellError
from sparkfleet.fit.weights import Tensors, Weights, from_shape, from_tensors

CONFIG, QUANTIZATION = "config.json", "hf_quant_config.json"
Answer = Mapping[str, Any]


def model_of(answer: Answer, start: Start, draft: Answer | None = None) -> Model:
    """Return the model that `answer` describes, and its draft from `draft` or a folder of its own.

    What cannot be told is in its `unknown`. Raises InputError for a config that is no config.
    """
    unknown: list[str] = []
    shape = _shape(answer, CONFIG, unknown)
    weights = _weights(answer["tensors"], shape, start.online, unknown)
    draft_shape, drafted = _draft(answer, start, draft, unknown)
    return Model(
        shape=shape,
        weights=weights,
        draft_shape=draft_shape,
        draft=drafted,
        unknown=tuple(unknown),
    )


def _shape(answer: Answer, name: str, unknown: list[str]) -> Architecture | None:
    text = answer["files"].get(name)
    if text is None:
        unknown.append(f"cannot tell the shape: there is no {name}")
        return None
    shape = parse(text, file=name)
    beside = answer["files"].get(QUANTIZATION)
    if beside is None or shape.quantization:
        return shape
    return replace(shape, quantization=_quantization(beside))


def _quantization(text: str) -> Mapping[str, Any]:
    """Return what ModelOpt writes beside a config that does not have it."""
    try:
        tree = json.loads(text)
    except ValueError:
        return {}
    found = tree.get("quantization") if isinstance(tree, dict) else None
    return {"quant_method": "modelopt", **found} if isinstance(found, dict) else {}


def _weights(
    rows: Sequence[Sequence[Any]],
    shape: Architecture | None,
    online: str | None,
    unknown: list[str],
) -> Weights | None:
    if shape is None:
        return None
    try:
        return from_tensors(tensors(rows), shape, online) if rows else from_shape(shape, online)
    except CannotTellError as error:
        unknown.append(error.message)
        return None


def tensors(rows: Sequence[Sequence[Any]]) -> tuple[Tensors, ...]:
    """Return rows of `onhost/shape.py` as values."""
    return tuple(
        Tensors(
            name=name, dtype=dtype, dimensions=dimensions, count=count, elements=elements, size=size
        )
        for name, dtype, dimensions, count, elements, size in rows
    )


def _draft(
    answer: Answer, start: Start, draft: Answer | None, unknown: list[str]
) -> tuple[Architecture | None, Weights | None]:
    speculation = start.speculation
    if speculation is None or speculation.model is None:
        return None, None
    folder = PurePosixPath(speculation.model).name
    if draft is None and folder in answer["drafts"]:
        text = answer["files"].get(f"{folder}/{CONFIG}")
        files = {} if text is None else {CONFIG: text}
        draft = {"files": files, "tensors": answer["drafts"][folder], "drafts": {}}
    if draft is None:
        unknown.append(f"cannot tell what the draft model {speculation.model} takes: not found")
        return None, None
    shape = _shape(draft, CONFIG, unknown)
    return shape, _weights(draft["tensors"], shape, None, unknown)
