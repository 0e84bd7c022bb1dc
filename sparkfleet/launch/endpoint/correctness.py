"""Checks of a served model's answers; pure.

A successful start does not prove correct output: weights, kernels, parsers and ranks can be wrong
without an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sparkfleet.command_name import expand_commands
from sparkfleet.launch.endpoint.image_prompt import COLOUR, IMAGE_QUESTION
from sparkfleet.launch.endpoint.replies import LOGS_FIX, Reply
from sparkfleet.recipes.metadata import SmokePrompt
from sparkfleet.values import parse_json

TOOLS = ({
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather in a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "name of the city"}},
            "required": ["city"],
        },
    },
},)  # fmt: skip
TOOL_PROMPT = "What is the weather in Oslo now? Call the function get_weather to find out."
REASONING_PROMPT = "A train leaves at 9:40 and arrives at 12:05. How many minutes does it take?"
# Names in the chat templates of Gemma and Qwen, and of Granite
REASONING_ARGUMENTS = {"enable_thinking": True, "thinking": True}

# Delimiters of reasoning and tool calls, which the right parser removes
TAGS = re.compile(r"</?think>|<\|?channel\|?>|^thought\n|\[/?THINK\]")
CALL_TAGS = re.compile(r"</?tool_call|\[TOOL_CALLS\]|<\|?tool|get_weather\(|\"name\": ?\"get_weath")
# One character or short word repeated; lines of Markdown tables do not count
REPETITION = re.compile(r"([^\s\-=_*#.|])\1{15,}|(\b\w{1,8}\W\s?)\2{15,}")
NO_IMAGES = ("is not a multimodal model", "At most 0 image")  # vLLM's words

REPEATED = "degenerate output (repeated token)"
REPEATED_FIX = (
    "NVFP4 experts on a GB10 need --moe-backend marlin (NaN scales give !!!!); "
    "otherwise check the weights: {task:weights.verify}"
)
# qwen3 does this in vLLM 0.32 for a model that does not think
WRONG_REASONING_PARSER = "reasoning-parser does not match this model, or the model does not reason"
LONGER_ANSWER_FIX = "allow a longer answer: --set vllm_smoke_tokens=2000, or limit the reasoning"


@dataclass(frozen=True, slots=True, kw_only=True)
class SmokeCheck:
    """Result of one check; `passed` is None if it does not apply, and `seen` says why.

    A ``{task:cluster.up}`` in `fix` becomes the command that the user types.
    """

    name: str
    asked: str
    expected: str
    seen: str
    passed: bool | None
    seconds: float = 0.0
    fix: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "fix", expand_commands(self.fix))


def skip_check(name: str, why: str) -> SmokeCheck:
    """Return a check that does not apply."""
    return SmokeCheck(name=name, asked="", expected="", seen=why, passed=None)


def check_answer(question: SmokePrompt, reply: Reply) -> SmokeCheck:
    """Check the answer to a question whose answer is known."""
    result, fix = _find_reply_problem(reply)
    right = not result and question.expect in reply.content
    if not result:
        result = _quote_shortened(reply.content)
        fix = "check the weights: {task:weights.verify}; the recipe: {task:recipes.validate}"
    return SmokeCheck(
        name="answer",
        asked=_quote_shortened(question.ask),
        expected=_quote_shortened(question.expect),
        seen=result,
        passed=right,
        seconds=reply.seconds,
        fix="" if right else fix,
    )


def check_repeated_answer(question: SmokePrompt, first: Reply, second: Reply) -> SmokeCheck:
    """Check that the same greedy request gets the same answer twice.

    Kernels for another batch may choose other words, so two correct answers count as equal.
    """
    same = (first.content, first.reasoning) == (second.content, second.reasoning)
    right = all(question.expect in reply.content for reply in (first, second))
    passed = second.refusal == "" and (same or right)
    if second.refusal or same:
        result = second.refusal or "the same answer twice"
    elif right:
        result = "two correct answers, worded differently"
    else:
        result = f"{_quote_shortened(first.text)}, then {_quote_shortened(second.text)}"
    return SmokeCheck(
        name="same twice",
        asked=f"{_quote_shortened(question.ask)} again",
        expected="the same answer",
        seen=result,
        passed=passed,
        seconds=second.seconds,
        fix=""
        if passed
        else "the ranks may disagree: run {task:links.verify}, {task:weights.verify} and "
        "{task:cluster.drift}",
    )


def check_stream(question: SmokePrompt, reply: Reply) -> SmokeCheck:
    """Check a stream: several parts, an end, and the requested usage."""
    symptom, fix = _find_reply_problem(reply)
    problems = [
        (symptom, True),
        ("no [DONE] at the end", not reply.ended),
        ("no usage at the end", reply.tokens is None),
        (f"all {reply.tokens} tokens in one part", reply.chunks < 2 < (reply.tokens or 0)),
        (f"{_quote_shortened(reply.content)}", question.expect not in reply.content),
    ]
    result = next((text for text, holds in problems if text and holds), "")
    return SmokeCheck(
        name="stream",
        asked=f"{_quote_shortened(question.ask)} as a stream",
        expected=f"{_quote_shortened(question.expect)} in parts, then usage",
        seen=result
        or f"{_quote_shortened(reply.content)} in {reply.chunks} parts, {reply.tokens} tokens",
        passed=not result,
        seconds=reply.seconds,
        fix=(fix or LOGS_FIX) if result else "",
    )


def check_tool_call(reply: Reply, parser: str, *, stream: bool = False) -> SmokeCheck:
    """Check that the offered function was called with JSON arguments."""
    name = "get_weather"
    call = next(iter(reply.calls), None)
    fix = ""
    if reply.refusal:
        result = reply.refusal
        fix = LOGS_FIX
    elif call is None and CALL_TAGS.search(reply.content):
        result = f"the call in the text, not parsed: {_quote_shortened(reply.content)}"
        fix = (
            f"tool-call-parser {parser} does not match this model (Gemma 4: pythonic, vLLM #38837)"
        )
    elif call is None:
        symptom, fix = _find_reply_problem(reply)
        result = symptom or f"no call; answer: {_quote_shortened(reply.content)}"
        fix = fix or f"check that the chat template supports tools with tool-call-parser {parser}"
    else:
        result = f"{call.name}({call.arguments})"
        fix = _find_call_problem(call.name, call.arguments, name)
    return SmokeCheck(
        name="tool call, streamed" if stream else "tool call",
        asked=_quote_shortened(TOOL_PROMPT),
        expected=f"a call of {name} with arguments in JSON",
        seen=result,
        passed=not fix,
        seconds=reply.seconds,
        fix=fix,
    )


def _find_call_problem(name: str, arguments: str, function: str) -> str:
    """Return the problem of a call, "" if there is none."""
    try:
        decoded = parse_json(arguments)
    except ValueError:
        return "arguments are not JSON: use another tool-call-parser (streamed: vLLM #38946)"
    if name != function or not isinstance(decoded, dict) or not decoded.get("city"):
        return "not the offered function, or no city argument"
    return ""


def check_reasoning(reply: Reply, parser: str) -> SmokeCheck:
    """Check that reasoning is separated from the answer."""
    fix = ""
    if reply.refusal:
        result = reply.refusal
        passed = None if reply.status == 400 else False
    elif tag := TAGS.search(reply.content):
        result = f"{tag[0].strip()!r} in the answer: {_quote_shortened(reply.content)}"
        passed = False
        fix = f"reasoning-parser {parser} does not match this model (Gemma 4: vLLM #38855)"
    elif reply.reasoning and not reply.content and reply.finish != "length":
        result, fix = _find_reply_problem(reply)
        passed = False
    elif reply.reasoning:
        result = f"{len(reply.reasoning)} characters of reasoning, separated"
        passed = True
    else:
        result = "an answer without reasoning"
        passed = None
    return SmokeCheck(
        name="reasoning",
        asked=_quote_shortened(REASONING_PROMPT),
        expected="reasoning separated from the answer",
        seen=result,
        passed=passed,
        seconds=reply.seconds,
        fix=fix,
    )


def check_vision(reply: Reply) -> SmokeCheck:
    """Check the answer about an image of one colour; skipped if the server accepts no images."""
    if reply.status == 400 and any(phrase in reply.error for phrase in NO_IMAGES):
        return skip_check("vision", f"the server accepts no images: {reply.error}")
    symptom, fix = _find_reply_problem(reply)
    right = not symptom and COLOUR in reply.content.lower()
    return SmokeCheck(
        name="vision",
        asked=f"{_quote_shortened(IMAGE_QUESTION)} with a {COLOUR} image",
        expected=COLOUR,
        seen=symptom or _quote_shortened(reply.content),
        passed=right,
        seconds=reply.seconds,
        fix="" if right else fix or "check the files of its processor: {task:weights.verify}",
    )


def _find_reply_problem(reply: Reply) -> tuple[str, str]:
    """Return the problem of an answer and its fix, ("", "") if there is none."""
    if reply.refusal:
        return reply.refusal, LOGS_FIX
    if garbled := REPETITION.search(reply.text):
        return f"{REPEATED}: {_quote_shortened(garbled[0])}", REPEATED_FIX
    if reply.content or reply.calls:
        return "", ""
    if reply.reasoning and reply.finish == "length":
        return f"no answer: all {reply.tokens} tokens were used for reasoning", LONGER_ANSWER_FIX
    if reply.reasoning:
        return (
            f"no answer: all of it was parsed as reasoning: {_quote_shortened(reply.reasoning)}",
            WRONG_REASONING_PARSER,
        )
    return f"an empty answer (finish_reason {reply.finish or 'none'})", LOGS_FIX


def _quote_shortened(text: str, most: int = 60) -> str:
    """Return a text as one quoted line, shortened if long."""
    line = " ".join(text.split())
    return repr(line if len(line) <= most else line[: most - 3] + "...")
