"""Tool calls."""

from __future__ import annotations

from sparkfleet.model import Severity
from sparkfleet.recipes.rules.rule import Companion, Rule

TOOL_PARSER = Companion(
    option="enable-auto-tool-choice",
    needs="tool-call-parser",
    expected="--tool-call-parser as well",
    seen="no parser",
    fix="write in vllm_args: tool-call-parser: NAME, as the model's document has it",
)
TOOL_CHOICE = Companion(
    option="tool-call-parser",
    needs="enable-auto-tool-choice",
    expected="enable-auto-tool-choice: true as well",
    seen="a parser that is not used",
    fix="write in vllm_args: enable-auto-tool-choice: true, or remove the parser",
    severity=Severity.WARNING,
)
RULES = (
    Rule(
        id="tool_parser",
        why='vLLM exits with "--enable-auto-tool-choice requires --tool-call-parser"',
        source="guide 8; vLLM's cli_args.py, 0.16 to 0.33",
        find=TOOL_PARSER.find,
    ),
    Rule(
        id="tool_choice",
        why="without it vLLM refuses requests that let the model choose its tools",
        source="vLLM's entrypoints/openai/chat_completion/serving.py, 0.32.0",
        find=TOOL_CHOICE.find,
    ),
)
