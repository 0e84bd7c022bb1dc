"""A model of the Hub without a recipe: vLLM's defaults, and the memory rules of every recipe."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sparkfleet.errors import Where
from sparkfleet.model import Value

MODEL_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
IMAGE = "nvcr.io/nvidia/vllm:26.04-py3"  # of the shipped recipes for models in NVIDIA's images
UTILIZATION = 0.85  # of the shipped recipes; vLLM's own 0.92 leaves a Spark too little
SOURCE = Where(file="a model without a recipe")


def is_model_name(name: str) -> bool:
    """Return whether `name` is ``ORG/MODEL``, as on the Hub."""
    return MODEL_NAME.fullmatch(name) is not None


def build_model_variables(model: str) -> Mapping[str, Value]:
    """Return the variables that serve `model`.

    The longest context that fits is vLLM's to find: ``--max-model-len auto``
    (https://github.com/vllm-project/vllm/issues/41364).
    """
    args: dict[str, Any] = {"gpu-memory-utilization": UTILIZATION, "max-model-len": "auto"}
    return {
        "vllm_model": Value(data=model, where=SOURCE),
        "engine_image": Value(data=IMAGE, where=SOURCE),
        "vllm_args": Value(data=args, where=SOURCE, entries=dict.fromkeys(args, SOURCE)),
    }
