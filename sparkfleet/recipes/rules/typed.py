"""Values given as text that vLLM reads as JSON or as numbers, and placeholders left in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from sparkfleet.model import Severity
from sparkfleet.recipes.rules.rule import Rule, RuleFinding
from sparkfleet.recipes.rules.subject import RuleContext
from sparkfleet.vllm.options import VllmOption, parse_human_readable_int

# Types of vllm/engine/arg_utils.py of vLLM 0.32: a dataclass or a dict is read as JSON.
JSON_OPTIONS = (
    "attention-config",
    "compilation-config",
    "default-chat-template-kwargs",
    "default-mm-loras",
    "ec-transfer-config",
    "eplb-config",
    "kernel-config",
    "kv-events-config",
    "kv-transfer-config",
    "limit-mm-per-prompt",
    "media-io-kwargs",
    "mm-processor-kwargs",
    "override-generation-config",
    "pooler-config",
    "profiler-config",
    "reasoning-config",
    "speculative-config",
    "structured-outputs-config",
)
JSON_OR_TEXT = ("additional-config", "hf-overrides", "model-loader-extra-config")
INTEGERS = (
    "block-size",
    "data-parallel-size",
    "max-logprobs",
    "max-lora-rank",
    "max-loras",
    "max-num-seqs",
    "pipeline-parallel-size",
    "seed",
    "spec-tokens",
    "stream-interval",
    "tensor-parallel-size",
)
SIZES = ("kv-cache-memory-bytes", "max-model-len", "max-num-batched-tokens")  # 65536, 64K, 25.6k
FRACTIONS = ("cpu-offload-gb", "gpu-memory-utilization", "mm-processor-cache-gb", "swap-space")
WORDS = {"max-model-len": ("auto", "-1")}
LEVEL = re.compile(r"[0-3]")  # of compilation-config, before it was JSON alone
INTEGER = re.compile(r"[+-]?\d+(?:_\d+)*")
OBJECT = re.compile(r"\s*\{.*\}\s*", re.DOTALL)
# Not {{ name }}, which is a template of sparkfleet's own.
PLACEHOLDER = re.compile(r"\$\{\w+\}|(?<!\{)\{[A-Za-z_]\w*\}(?!\})|<your[ _-][a-z _-]+>")
TEMPLATES = ("chat-template", "default-chat-template-kwargs")  # braces belong there


def _check_json_values(context: RuleContext) -> Iterator[RuleFinding]:
    for option in _list_text_options(context):
        is_json = option.name in JSON_OPTIONS
        is_json = is_json or (option.name in JSON_OR_TEXT and bool(OBJECT.fullmatch(option.value)))
        if option.path or not is_json or PLACEHOLDER.fullmatch(option.value):
            continue
        if problem := _explain_no_object(option):
            yield RuleFinding(
                subject=option.flag,
                expected="a JSON object",
                seen=f"{option.value[:80]}: {problem}",
                where=option.where,
                fix=f"write it as a mapping in vllm_args, without quotes: {option.name}: "
                "{key: value}",
            )


def _explain_no_object(option: VllmOption) -> str:
    """Return why a text cannot be read as a JSON object; "" where it can."""
    if option.name == "compilation-config" and LEVEL.fullmatch(option.value):
        return ""
    try:
        value = json.loads(option.value)
    except ValueError as error:
        return str(error)
    return "" if isinstance(value, dict) else f"it is a {type(value).__name__}"


def _check_numbers(context: RuleContext) -> Iterator[RuleFinding]:
    for option in _list_text_options(context):
        expected = _describe_number(option.name)
        if not expected or PLACEHOLDER.search(option.value) or option.value.endswith("\\"):
            continue  # rules of their own report these
        if not _is_number(option.name, option.value.strip()):
            yield RuleFinding(
                subject=option.flag,
                expected=expected,
                seen=repr(option.value),
                where=option.where,
                fix=f"write a number: {option.name}: 16" if option.name in INTEGERS else expected,
            )


def _describe_number(name: str) -> str:
    if name in INTEGERS:
        return "an integer"
    if name in SIZES:
        return "an integer such as 65536 or 64K" + (", or auto" if name in WORDS else "")
    return "a number such as 0.85" if name in FRACTIONS else ""


def _is_number(name: str, text: str) -> bool:
    if name in INTEGERS:
        return bool(INTEGER.fullmatch(text))
    try:
        if name in SIZES:
            return text in WORDS.get(name, ()) or parse_human_readable_int(text) >= 0
        return float(text) >= 0
    except ValueError:
        return False


def _check_placeholders(context: RuleContext) -> Iterator[RuleFinding]:
    options = [
        (option.flag, option.value, option.where)
        for option in _list_text_options(context)
        if option.name not in TEMPLATES
    ]
    variables = [
        (name, value, context.at(name))
        for name, value in context.environment.items()
        if isinstance(value, str)
    ]
    for subject, value, where in (*options, *variables):
        found = None if _is_json(value) else PLACEHOLDER.search(value)
        if found:
            whole = found[0] == value.strip()
            yield RuleFinding(
                subject=subject,
                expected="a value",
                seen=f"{value[:80]}: nothing replaces {found[0]}",
                where=where,
                fix=f"write the value in the place of {found[0]}",
                severity=Severity.ERROR if whole else Severity.WARNING,
            )


def _is_json(value: str) -> bool:
    """Return whether a text is JSON, whose braces are no placeholder's."""
    try:
        return isinstance(json.loads(value), dict | list)
    except ValueError:
        return False


def _list_text_options(context: RuleContext) -> Iterator[Any]:
    """Yield the options whose value is a text, as the last one given counts."""
    names = dict.fromkeys(option.name for option in context.vllm_options)
    for name in names:
        option = context.option(name)
        if option is not None and isinstance(option.value, str):
            yield option


RULES = (
    Rule(
        id="json",
        why="vLLM ends when it reads its options: the value cannot be converted",
        source="vLLM's arg_utils.py; eugr/spark-vllm-docker#111",
        find=_check_json_values,
    ),
    Rule(
        id="number",
        why="vLLM ends when it reads its options: invalid int value",
        source="vLLM's argument parser (argparse)",
        find=_check_numbers,
    ),
    Rule(
        id="placeholder",
        why="the text of an example reaches vLLM as it is",
        source="vLLM's argument parser (argparse)",
        find=_check_placeholders,
    ),
)
