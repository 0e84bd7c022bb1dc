"""A model as `onhost/weights/shape.py`, or a reader here, saw it in its folder; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from sparkfleet.fit.config import Architecture, parse_model_config
from sparkfleet.fit.interval import UnknownFigureError
from sparkfleet.fit.model import ModelProfile
from sparkfleet.fit.options import ServeOptions
from sparkfleet.fit.weights import TensorGroup, Weights, estimate_shape_weights, sum_tensor_weights
from sparkfleet.values import parse_json

CONFIG = "config.json"
QUANTIZATION = "hf_quant_config.json"
ShapeAnswer = Mapping[str, Any]


def build_model_profile(
    answer: ShapeAnswer, options: ServeOptions, draft: ShapeAnswer | None = None
) -> ModelProfile:
    """Return the model that `answer` describes, and its draft from `draft` or a folder of its own.

    Its `unknown` lists what is missing. Raises InputError for an invalid config.
    """
    unknown: list[str] = []
    shape = _parse_shape(answer, CONFIG, unknown)
    weights = _estimate_weights(answer["tensors"], shape, options.online, unknown)
    draft_shape, drafted = _build_draft_profile(answer, options, draft, unknown)
    return ModelProfile(
        shape=shape,
        weights=weights,
        draft_shape=draft_shape,
        draft=drafted,
        unknown=tuple(unknown),
    )


def _parse_shape(answer: ShapeAnswer, name: str, unknown: list[str]) -> Architecture | None:
    text = answer["files"].get(name)
    if text is None:
        unknown.append(f"unknown shape: {name} not found")
        return None
    shape = parse_model_config(text, file=name)
    separate = answer["files"].get(QUANTIZATION)
    if separate is None or shape.quantization:
        return shape
    return replace(shape, quantization=_parse_quantization(separate))


def _parse_quantization(text: str) -> Mapping[str, Any]:
    """Return the quantization that ModelOpt writes to a file of its own."""
    try:
        tree = parse_json(text)
    except ValueError:
        return {}
    section = tree.get("quantization") if isinstance(tree, dict) else None
    return {"quant_method": "modelopt", **section} if isinstance(section, dict) else {}


def _estimate_weights(
    rows: Sequence[Sequence[Any]],
    shape: Architecture | None,
    online: str | None,
    unknown: list[str],
) -> Weights | None:
    if shape is None:
        return None
    try:
        return (
            sum_tensor_weights(parse_tensor_rows(rows), shape, online)
            if rows
            else estimate_shape_weights(shape, online)
        )
    except UnknownFigureError as error:
        unknown.append(error.message)
        return None


def parse_tensor_rows(rows: Sequence[Sequence[Any]]) -> tuple[TensorGroup, ...]:
    """Return rows of `onhost/weights/shape.py` as values."""
    return tuple(
        TensorGroup(
            name=name, dtype=dtype, dimensions=dimensions, count=count, elements=elements, size=size
        )
        for name, dtype, dimensions, count, elements, size in rows
    )


def _build_draft_profile(
    answer: ShapeAnswer, options: ServeOptions, draft: ShapeAnswer | None, unknown: list[str]
) -> tuple[Architecture | None, Weights | None]:
    speculation = options.speculation
    if speculation is None or speculation.model is None:
        return None, None
    folder = PurePosixPath(speculation.model).name
    if draft is None and folder in answer["drafts"]:
        text = answer["files"].get(f"{folder}/{CONFIG}")
        files = {} if text is None else {CONFIG: text}
        draft = {"files": files, "tensors": answer["drafts"][folder], "drafts": {}}
    if draft is None:
        unknown.append(f"unknown size of the draft model {speculation.model}: not found")
        return None, None
    shape = _parse_shape(draft, CONFIG, unknown)
    return shape, _estimate_weights(draft["tensors"], shape, None, unknown)
