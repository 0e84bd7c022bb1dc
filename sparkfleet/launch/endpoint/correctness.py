"""What a served model is asked to prove that its answers are right; pure.

A healthy start proves no output: weights, kernels, parsers and ranks go wrong without an error.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from sparkfleet.launch.endpoint.image_prompt import COLOUR, IMAGE_QUESTION
from sparkfleet.launch.endpoint.replies import Reply
from sparkfleet.recipes.metadata import SmokePrompt

TOOLS = ({
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tell the weather in a city now",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "name of the city"}},
            "required": ["city"],
        },
    },
},)  # fmt: skip
TOOL_PROMPT = "What is the weather in Oslo now? Call the function get_weather to find out."
REASONING_PROMPT = "A train leaves at 9:40 and arrives at 12:05. How many minutes does it take?"
REASONING_ARGUMENTS = {
    "enable_thinking": True,
    "thinking": True,
}  # by the templates of Gemma and Qwen; Granite

# What a model writes around thoughts and calls, which a parser that fits takes away
TAGS = re.compile(r"</?think>|<\|?channel\|?>|^thought\n|\[/?THINK\]")
CALL_TAGS = re.compile(r"</?tool_call|\[TOOL_CALLS\]|<\|?tool|get_weather\(|\"name\": ?\"get_weath")
REPETITION = re.compile(
    r"([^\s\-=_*#.|])\1{15,}|(\b\w{1,8}\W\s?)\2{15,}"
)  # rules of tables are none
NO_IMAGES = ("is not a multimodal model", "At most 0 image")  # vLLM's words

REPEATED = "garbled: one thing again and again"
REPEATED_FIX = (
    "NVFP4 experts on a GB10 need --moe-backend marlin (NaN scales give !!!!); "
    "else compare the bytes: weights.verify"
)
WRONG_REASONING_PARSER = (
    "the reasoning-parser is not of this model, or this model does not think"  # qwen3, vLLM 0.32
)
LONGER_ANSWER_FIX = "a longer answer: --set vllm_smoke_tokens=2000, or have it think less"


@dataclass(frozen=True, slots=True, kw_only=True)
class SmokeCheck:
    """One thing that was asked; `passed` is None where it does not apply, and `seen` says why."""

    name: str
    asked: str
    expected: str
    seen: str
    passed: bool | None
    seconds: float = 0.0
    fix: str = ""


def skip_check(name: str, why: str) -> SmokeCheck:
    """Return a check that does not apply."""
    return SmokeCheck(name=name, asked="", expected="", seen=why, passed=None)


def check_answer(question: SmokePrompt, reply: Reply) -> SmokeCheck:
    """Judge the answer to a question whose answer is known."""
    result, fix = _find_reply_problem(reply)
    right = not result and question.expect in reply.content
    if not result:
        result = _quote_shortened(reply.content)
        fix = "compare the weights: weights.verify; the recipe: recipes.validate"
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
    """Judge whether the same greedy request got the same answer twice.

    Other kernels for another batch may choose other words, so two right answers agree.
    """
    same = (first.content, first.reasoning) == (second.content, second.reasoning)
    right = all(question.expect in reply.content for reply in (first, second))
    passed = second.refusal == "" and (same or right)
    if second.refusal or same:
        result = second.refusal or "the same twice"
    elif right:
        result = "both right, in other words"
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
        else "ranks that do not agree: links.verify, weights.verify, cluster.drift",
    )


def check_stream(question: SmokePrompt, reply: Reply) -> SmokeCheck:
    """Judge a stream: parts, an end, and the usage that was asked for."""
    symptom, fix = _find_reply_problem(reply)
    problems = [
        (symptom, True),
        ("no [DONE] at its end", not reply.ended),
        ("no usage at its end", reply.tokens is None),
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
        fix=(fix or "what the server says: cluster.logs") if result else "",
    )


def check_tool_call(reply: Reply, parser: str, *, stream: bool = False) -> SmokeCheck:
    """Judge whether the offered function was called, with arguments that are JSON."""
    name, call = "get_weather", next(iter(reply.calls), None)
    fix = ""
    if reply.refusal:
        result, fix = reply.refusal, "what the server says: cluster.logs"
    elif call is None and CALL_TAGS.search(reply.content):
        result = f"the call stands in the text, unread: {_quote_shortened(reply.content)}"
        fix = f"tool-call-parser {parser} is not of this model (for Gemma 4, vLLM #38837: pythonic)"
    elif call is None:
        symptom, fix = _find_reply_problem(reply)
        result = symptom or f"no call, but {_quote_shortened(reply.content)}"
        fix = fix or f"does its chat template know tools? tool-call-parser: {parser}"
    else:
        result, fix = (
            f"{call.name}({call.arguments})",
            _find_call_problem(call.name, call.arguments, name),
        )
    return SmokeCheck(
        name="tool call, streamed" if stream else "tool call",
        asked=_quote_shortened(TOOL_PROMPT),
        expected=f"{name} called, arguments in JSON",
        seen=result,
        passed=not fix,
        seconds=reply.seconds,
        fix=fix,
    )


def _find_call_problem(name: str, arguments: str, function: str) -> str:
    """Return what is wrong with a call, "" for nothing."""
    try:
        decoded = json.loads(arguments)
    except ValueError:
        return "its arguments are no JSON: another tool-call-parser (streamed: vLLM #38946)"
    if name != function or not isinstance(decoded, dict) or not decoded.get("city"):
        return "not the function that was offered, or without its city"
    return ""


def check_reasoning(reply: Reply, parser: str) -> SmokeCheck:
    """Judge whether thoughts are split off the answer."""
    fix = ""
    if reply.refusal:
        result, passed = reply.refusal, None if reply.status == 400 else False
    elif tag := TAGS.search(reply.content):
        result, passed = (
            f"{tag[0].strip()!r} in the answer: {_quote_shortened(reply.content)}",
            False,
        )
        fix = f"reasoning-parser {parser} is not of this model (for Gemma 4: vLLM #38855)"
    elif reply.reasoning and not reply.content and reply.finish != "length":
        (result, fix), passed = _find_reply_problem(reply), False
    elif reply.reasoning:
        result, passed = f"{len(reply.reasoning)} characters of thoughts apart", True
    else:
        result, passed = "cannot tell: it answered without thinking", None
    return SmokeCheck(
        name="reasoning",
        asked=_quote_shortened(REASONING_PROMPT),
        expected="thoughts apart from the answer",
        seen=result,
        passed=passed,
        seconds=reply.seconds,
        fix=fix,
    )


def check_vision(reply: Reply) -> SmokeCheck:
    """Judge what was seen in an image of one colour; the server says if it takes none."""
    if reply.status == 400 and any(phrase in reply.error for phrase in NO_IMAGES):
        return skip_check("vision", f"the server takes no images: {reply.error}")
    symptom, fix = _find_reply_problem(reply)
    right = not symptom and COLOUR in reply.content.lower()
    return SmokeCheck(
        name="vision",
        asked=f"{_quote_shortened(IMAGE_QUESTION)} and a {COLOUR} image",
        expected=COLOUR,
        seen=symptom or _quote_shortened(reply.content),
        passed=right,
        seconds=reply.seconds,
        fix="" if right else fix or "is its processor staged whole? weights.verify",
    )


def _find_reply_problem(reply: Reply) -> tuple[str, str]:
    """Return what is wrong with any answer, and what to do about it; ("", "") for nothing."""
    if reply.refusal:
        return reply.refusal, "what the server says: cluster.logs"
    if garbled := REPETITION.search(reply.text):
        return f"{REPEATED}: {_quote_shortened(garbled[0])}", REPEATED_FIX
    if reply.content or reply.calls:
        return "", ""
    if reply.reasoning and reply.finish == "length":
        return f"no answer: all {reply.tokens} tokens went into thoughts", LONGER_ANSWER_FIX
    if reply.reasoning:
        return (
            f"no answer: all of it was taken for thoughts: {_quote_shortened(reply.reasoning)}",
            WRONG_REASONING_PARSER,
        )
    return f"an empty answer (finish_reason {reply.finish or 'none'})", "its log: cluster.logs"


def _quote_shortened(text: str, most: int = 60) -> str:
    """Return a text as one quoted line, cut where it is long."""
    line = " ".join(text.split())
    return repr(line if len(line) <= most else line[: most - 3] + "...")
