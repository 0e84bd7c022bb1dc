"""Tool calls."""

from __future__ import annotations

from collections.abc import Iterator

from sparkfleet.recipes.rules.rule import Rule, RuleFinding
from sparkfleet.recipes.rules.subject import RuleContext


def _check_tool_parser(context: RuleContext) -> Iterator[RuleFinding]:
    option = context.enabled_option("enable-auto-tool-choice")
    if option is not None and context.enabled_option("tool-call-parser") is None:
        yield RuleFinding(
            subject=option.flag,
            expected="--tool-call-parser as well",
            seen="no parser",
            where=option.where,
            fix="write in vllm_args: tool-call-parser: NAME, as the model's document has it",
        )


RULES = (
    Rule(
        id="tool_parser",
        why='vLLM ends with "--enable-auto-tool-choice requires --tool-call-parser"',
        source="guide 8; vLLM's cli_args.py, 0.16 to 0.33",
        find=_check_tool_parser,
    ),
)
