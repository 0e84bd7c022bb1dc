"""The model of a recipe, and the documents' advice on choosing it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sparkfleet.model import Severity
from sparkfleet.recipes.rules.rule import Rule, RuleFinding
from sparkfleet.recipes.rules.rule_context import RuleContext

GEMMA4 = re.compile(r"gemma-?4|^gemma4")
GEMMA4_DENSE = re.compile(r"gemma-?4-31b")
GEMMA4_MOE = re.compile(r"(?<!diffusion)gemma-?4-26b-a4b")
GEMMA4_MOE_OF_NVIDIA = re.compile(r"^nvidia/gemma-4-26b-a4b-nvfp4$")
QWEN35 = re.compile(r"qwen3\.5-\d+b")
QWEN35_MOE = re.compile(r"qwen3\.5-\d+b-a\d+b")
QWEN36_MOE = re.compile(r"qwen3\.6-35b-a3b")
NEMOTRON3 = re.compile(r"nemotron-3-")
DIFFUSION = re.compile(r"diffusiongemma")
SSM_AND_MOE = re.compile(r"^NemotronH(ForCausalLM|PuzzleForCausalLM)$")


def is_model(context: RuleContext, pattern: re.Pattern[str]) -> bool:
    """Return whether the model's name matches the pattern."""
    return pattern.search(context.model) is not None


def is_gemma4(context: RuleContext) -> bool:
    """Return whether the model is a Gemma 4, by its architecture or its name."""
    return context.architecture.startswith("Gemma4") or is_model(context, GEMMA4)


def is_nvfp4(context: RuleContext) -> bool:
    """Return whether the weights are NVFP4; formats that can hold it can hold others too."""
    return "nvfp4" in context.model or context.format == "nvfp4"


def _check_dense_model(context: RuleContext) -> Iterator[RuleFinding]:
    if is_model(context, GEMMA4_DENSE):
        yield RuleFinding(
            subject="the model",
            expected="the MoE of the same family, Gemma 4 26B-A4B",
            seen=f"{context.settings.text('vllm_model')}, which is dense",
            where=context.at("vllm_model"),
            fix="compare: {task:recipes.show} gemma4-26b-a4b-nvfp4",
            severity=Severity.INFO,
        )


def _check_tp_limit(context: RuleContext) -> Iterator[RuleFinding]:
    most = 1 if is_model(context, GEMMA4_MOE_OF_NVIDIA) else context.recipe.tp_max
    if most is not None and context.tp > most:
        yield RuleFinding(
            subject="--tp",
            expected=f"{most} at most, for this checkpoint",
            seen=str(context.tp),
            where=context.at("tp_max", "vllm_model"),
            fix=f"--tp {most}; more Sparks can serve more copies of it",
        )


def _check_remote_code(context: RuleContext) -> Iterator[RuleFinding]:
    drafts = context.settings.value("weights_drafts") or ()
    staged = {str(name).partition("@")[0] for name in drafts}
    for name in context.facts.code if context.enabled_option("trust-remote-code") else ():
        if name not in staged:
            yield RuleFinding(
                subject="weights_drafts",
                expected=f"{name}, whose Python the model's config.json names",
                seen=", ".join(sorted(staged)) or "none",
                where=context.at("trust-remote-code"),
                fix=f"weights_drafts: [{name}] stages it on every node",
            )


RULES = (
    Rule(
        id="dense",
        why="each token reads all 31B weights: 6.8 tok/s, where the 26B MoE gives 5 to 8 times as "
        "much and answers as well",
        source="single-spark, verdict; 52-toks, phase 0",
        find=_check_dense_model,
    ),
    Rule(
        id="borrowed_code",
        why="every rank would fetch it from the Hub at the start, and could not write it to "
        "weights that are read-only",
        source="huggingface/transformers#34855; huggingface/huggingface_hub#2797",
        find=_check_remote_code,
    ),
    Rule(
        id="tp",
        why="vLLM cannot split this checkpoint over more GPUs",
        source="guide 7.2.2 for Gemma-4-26B-A4B-NVFP4; else the recipe's tp_max and its source",
        find=_check_tp_limit,
    ),
)
