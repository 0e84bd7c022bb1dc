"""--quantization: given for ModelOpt's checkpoints, and left out for compressed-tensors."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.version import Version

from sparkfleet.model import Severity
from sparkfleet.recipes.rules.images import COMMUNITY, COMMUNITY_B12X
from sparkfleet.recipes.rules.models import DIFFUSION, NEMOTRON3, is_model
from sparkfleet.recipes.rules.rule import Rule, RuleFinding
from sparkfleet.recipes.rules.rule_context import RuleContext
from sparkfleet.vllm.releases import parse_version

NVIDIA_NVFP4 = re.compile(r"^nvidia/.*nvfp4")
# Checkpoints whose own documents serve them without the flag: guide 7.3.1, 7.3.2, 13.2 and 7.2.4.
# NVIDIA measured the one of Nemotron 3.5 without it too, 2026-09.
WITHOUT = (NEMOTRON3, DIFFUSION, re.compile(r"nemotron-3\.5-"))
# NVIDIA measured eleven of its checkpoints without it, with these images and with vLLM 0.28.0
# (NVIDIA/local-ai-inference-recipes at 12b25c66, 2026-09).
IMAGES_WITHOUT = (COMMUNITY, COMMUNITY_B12X)
SINCE_WITHOUT = Version("0.28.0")
METHODS = ("modelopt", "compressed-tensors", "awq", "gptq")  # fp8 and others are number formats


def _check_modelopt(context: RuleContext) -> Iterator[RuleFinding]:
    declared = context.format == "modelopt"
    guessed = not context.format and is_model(context, NVIDIA_NVFP4)
    given = context.value("quantization")
    if not (declared or guessed) or given.startswith("modelopt"):
        return
    if given or not _is_optional(context):
        yield RuleFinding(
            subject="--quantization",
            expected="modelopt, for a checkpoint of NVIDIA's ModelOpt",
            seen=given or "unset",
            where=context.at("quantization", "vllm_args", "vllm_model"),
            fix="write in vllm_args: quantization: modelopt",
            severity=Severity.ERROR if given and declared else Severity.WARNING,
        )


def _is_optional(context: RuleContext) -> bool:
    """Return whether vLLM is known to see ModelOpt in the checkpoint's own files."""
    version = parse_version(context.version)
    recent = version is not None and version >= SINCE_WITHOUT
    return (
        recent
        or bool(context.facts.format)
        or context.image.repository in IMAGES_WITHOUT
        or any(is_model(context, pattern) for pattern in WITHOUT)
    )


def _check_compressed_tensors(context: RuleContext) -> Iterator[RuleFinding]:
    given = context.value("quantization")
    if context.format == "compressed-tensors" and given:
        yield RuleFinding(
            subject="--quantization",
            expected="unset: vLLM sees compressed-tensors in the checkpoint",
            seen=given,
            where=context.at("quantization"),
            fix="remove quantization from vllm_args",
            severity=Severity.WARNING if given == "compressed-tensors" else Severity.ERROR,
        )


def _check_checkpoint_format(context: RuleContext) -> Iterator[RuleFinding]:
    checkpoint = context.recipe.checkpoint
    declared = (checkpoint.format or "").lower() if checkpoint else ""
    actual = context.facts.format
    if actual and declared in METHODS and declared != actual:
        yield RuleFinding(
            subject="the checkpoint",
            expected=f"{declared}, as the recipe says",
            seen=f"{actual} in its config.json",
            where=context.at("checkpoint.format", "checkpoint"),
            fix="is it another model or revision than the recipe's? correct checkpoint, or those",
            severity=Severity.WARNING,
        )


RULES = (
    Rule(
        id="modelopt",
        why="the guide reports weights that are read wrong; vLLM itself sees ModelOpt in the "
        "checkpoint's own files, if they say so",
        source="guide 6 and 11; vLLM's config/model.py and transformers_utils/config.py"
        "; NVIDIA's starts with vLLM 0.28.0",
        find=_check_modelopt,
    ),
    Rule(
        id="compressed_tensors",
        why="vLLM refuses a method that is not the one in the checkpoint",
        source="guide 6 and 11; vLLM's config/model.py, _verify_quantization",
        find=_check_compressed_tensors,
    ),
    Rule(
        id="checkpoint",
        why="flags that are right for one build of a model ruin another",
        source="guide, first warning and 6",
        find=_check_checkpoint_format,
    ),
)
