"""--quantization: given for ModelOpt's checkpoints, and left out for compressed-tensors."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sparkfleet.model import Severity
from sparkfleet.recipes.rules.models import DIFFUSION, NEMOTRON3, is_a
from sparkfleet.recipes.rules.rule import Finding, Rule
from sparkfleet.recipes.rules.subject import Subject

NVIDIA_NVFP4 = re.compile(r"^nvidia/.*nvfp4")
# Checkpoints whose own documents serve them without the flag: guide 7.3.1, 7.3.2, 13.2 and 7.2.4.
WITHOUT = (NEMOTRON3, DIFFUSION)
METHODS = ("modelopt", "compressed-tensors", "awq", "gptq")  # fp8 and others are number formats


def _modelopt(subject: Subject) -> Iterator[Finding]:
    said = subject.format == "modelopt"
    guessed = not subject.format and is_a(subject, NVIDIA_NVFP4)
    given = subject.value("quantization")
    if not (said or guessed) or given.startswith("modelopt"):
        return
    told = subject.known.format or any(is_a(subject, pattern) for pattern in WITHOUT)
    if given or not told:
        yield Finding(
            subject="--quantization",
            expected="modelopt, for a checkpoint of NVIDIA's ModelOpt",
            seen=given or "not given",
            where=subject.at("quantization", "vllm_args", "vllm_model"),
            fix="write in vllm_args: quantization: modelopt",
            severity=Severity.ERROR if given and said else Severity.WARNING,
        )


def _compressed_tensors(subject: Subject) -> Iterator[Finding]:
    given = subject.value("quantization")
    if subject.format == "compressed-tensors" and given:
        yield Finding(
            subject="--quantization",
            expected="left out: vLLM sees compressed-tensors in the checkpoint",
            seen=given,
            where=subject.at("quantization"),
            fix="take quantization out of vllm_args",
            severity=Severity.WARNING if given == "compressed-tensors" else Severity.ERROR,
        )


def _other_checkpoint(subject: Subject) -> Iterator[Finding]:
    checkpoint = subject.recipe.checkpoint
    said = (checkpoint.format or "").lower() if checkpoint else ""
    found = subject.known.format
    if found and said in METHODS and said != found:
        yield Finding(
            subject="the checkpoint",
            expected=f"{said}, as the recipe says",
            seen=f"{found} in its config.json",
            where=subject.at("checkpoint.format", "checkpoint"),
            fix="is it another model or revision than the recipe's? correct checkpoint, or those",
            severity=Severity.WARNING,
        )


RULES = (
    Rule(
        id="modelopt",
        why="the guide tells of weights that are read wrong; vLLM itself sees ModelOpt in the "
        "checkpoint's own files, if they say so",
        source="guide 6 and 11; vLLM's config/model.py and transformers_utils/config.py",
        find=_modelopt,
    ),
    Rule(
        id="compressed_tensors",
        why="vLLM refuses a method that is not the one in the checkpoint",
        source="guide 6 and 11; vLLM's config/model.py, _verify_quantization",
        find=_compressed_tensors,
    ),
    Rule(
        id="checkpoint",
        why="flags that are right for one build of a model ruin another",
        source="guide, first warning and 6",
        find=_other_checkpoint,
    ),
)
