"""How much of the unified memory vLLM may take."""

from __future__ import annotations

from collections.abc import Iterator

from sparkfleet.model import Severity
from sparkfleet.recipes.rules.models import is_gemma4
from sparkfleet.recipes.rules.rule import Rule, RuleFinding
from sparkfleet.recipes.rules.rule_context import RuleContext

MAX_UTILIZATION = 0.92  # the highest of all documented recipes (guide 7.2.3, 8)
USUAL = 0.85


def _check_memory_utilization(context: RuleContext) -> Iterator[RuleFinding]:
    option = context.option("gpu-memory-utilization")
    if option is None or "{{" in str(option.value):
        return
    try:
        share = context.vllm_options.fraction(option.name)
    except ValueError:
        share = None
    if share is None or share > USUAL:
        allowed = share is not None and share <= MAX_UTILIZATION
        yield RuleFinding(
            subject=option.flag,
            expected=f"above 0, and {MAX_UTILIZATION} at most"
            if not allowed
            else f"{USUAL} or less",
            seen=str(option.value),
            where=option.where,
            fix=f"start from {USUAL}; {{task:recipes.fit}} shows what the model needs",
            severity=Severity.INFO if allowed else Severity.ERROR,
        )


def _check_fast_loader(context: RuleContext) -> Iterator[RuleFinding]:
    option = context.option("load-format")
    if option is not None and option.value == "fastsafetensors" and is_gemma4(context):
        yield RuleFinding(
            subject=option.flag,
            expected="safetensors, for Gemma 4",
            seen="fastsafetensors",
            where=option.where,
            fix="set load-format: safetensors, or remove it, if the host freezes while loading",
            severity=Severity.INFO,  # it works on some hosts: shipped recipes have it
        )


RULES = (
    Rule(
        id="utilization",
        why="it is a share of the 121.6 GiB that CPU and GPU share: the system, the page cache and "
        "a desktop, which dies at 0.80, need the rest",
        source="guide 2, 7.2.3 and 8; single-spark, bring-up",
        find=_check_memory_utilization,
    ),
    Rule(
        id="fast_loader",
        why="it takes so much memory next to the weights that a Spark can freeze while loading",
        source="eugr/spark-vllm-docker#205",
        find=_check_fast_loader,
    ),
)
