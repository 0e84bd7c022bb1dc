"""Tool calls."""

from __future__ import annotations

from collections.abc import Iterator

from sparkfleet.model import Severity
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


def _check_tool_choice(context: RuleContext) -> Iterator[RuleFinding]:
    option = context.enabled_option("tool-call-parser")
    if option is not None and context.enabled_option("enable-auto-tool-choice") is None:
        yield RuleFinding(
            subject=option.flag,
            expected="enable-auto-tool-choice: true as well",
            seen="a parser that is not used",
            where=option.where,
            fix="write in vllm_args: enable-auto-tool-choice: true, or remove the parser",
            severity=Severity.WARNING,
        )


RULES = (
    Rule(
        id="tool_parser",
        why='vLLM exits with "--enable-auto-tool-choice requires --tool-call-parser"',
        source="guide 8; vLLM's cli_args.py, 0.16 to 0.33",
        find=_check_tool_parser,
    ),
    Rule(
        id="tool_choice",
        why="without it vLLM answers no request for tools of its own choice",
        source="vLLM's entrypoints/openai/chat_completion/serving.py, 0.32.0",
        find=_check_tool_choice,
    ),
)
