"""--quantization: given for ModelOpt's checkpoints, and left out for compressed-tensors."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sparkfleet.model import Severity
from sparkfleet.recipes.rules.models import DIFFUSION, GEMMA4_DENSE, NEMOTRON3, is_a
from sparkfleet.recipes.rules.rule import Finding, Rule
from sparkfleet.recipes.rules.subject import Subject

NVIDIA_NVFP4 = re.compile(r"^nvidia/.*nvfp4")
# Checkpoints whose own documents serve them without the flag: guide 7.3.1, 7.3.2, 13.2 and 7.2.4.
WITHOUT = (NEMOTRON3, DIFFUSION)


def _modelopt(subject: Subject) -> Iterator[Finding]:
    said = subject.format == "modelopt"
    guessed = not subject.format and is_a(subject, NVIDIA_NVFP4)
    given = subject.value("quantization")
    if not (said or guessed) or given.startswith("modelopt"):
        return
    if not given and any(is_a(subject, pattern) for pattern in WITHOUT):
        return
    disputed = not given and is_a(subject, GEMMA4_DENSE)  # research 2 serves it without
    yield Finding(
        subject="--quantization",
        expected="modelopt, for a checkpoint of NVIDIA's ModelOpt",
        seen=given or "not given",
        where=subject.at("quantization", "vllm_args", "vllm_model"),
        fix="write in vllm_args: quantization: modelopt",
        severity=Severity.INFO if disputed else Severity.ERROR if said else Severity.WARNING,
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


RULES = (
    Rule(
        id="modelopt",
        why="vLLM then reads the weights wrong, or does not know them",
        source="guide 6 and 11",
        find=_modelopt,
    ),
    Rule(
        id="compressed_tensors",
        why="vLLM then reads the weights wrong, or does not know them",
        source="guide 6 and 11",
        find=_compressed_tensors,
    ),
)
