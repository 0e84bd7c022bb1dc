"""What a served model is asked to prove that its answers are right; pure.

A healthy start proves no output: weights, kernels, parsers and ranks go wrong without an error.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from sparkfleet.launch.replies import Reply
from sparkfleet.launch.sight import COLOUR, SIGHT_ASK
from sparkfleet.recipes.about import Question

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
TOOL_ASK = "What is the weather in Oslo now? Call the function get_weather to find out."
THINK_ASK = "A train leaves at 9:40 and arrives at 12:05. How many minutes does it take?"
THINK = {"enable_thinking": True, "thinking": True}  # by the templates of Gemma and Qwen; Granite

# What a model writes around thoughts and calls, which a parser that fits takes away
TAGS = re.compile(r"</?think>|<\|?channel\|?>|^thought\n|\[/?THINK\]")
CALL_TAGS = re.compile(r"</?tool_call|\[TOOL_CALLS\]|<\|?tool|get_weather\(|\"name\": ?\"get_weath")
SAME = re.compile(r"([^\s\-=_*#.|])\1{15,}|(\b\w{1,8}\W\s?)\2{15,}")  # rules of tables are none
NO_IMAGES = ("is not a multimodal model", "At most 0 image")  # vLLM's words

GARBLED = "garbled: one thing again and again"
GARBLED_FIX = (
    "NVFP4 experts on a GB10 need --moe-backend marlin (NaN scales give !!!!); "
    "else compare the bytes: weights.verify"
)
TAKEN = (
    "the reasoning-parser is not of this model, or this model does not think"  # qwen3, vLLM 0.32
)
LONGER = "a longer answer: --set vllm_smoke_tokens=2000, or have it think less"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was asked; `passed` is None where it does not apply, and `seen` says why."""

    name: str
    asked: str
    expected: str
    seen: str
    passed: bool | None
    seconds: float = 0.0
    fix: str = ""


def skipped(name: str, why: str) -> Check:
    """Return a check that does not apply."""
    return Check(name=name, asked="", expected="", seen=why, passed=None)


def answered(question: Question, reply: Reply) -> Check:
    """Judge the answer to a question whose answer is known."""
    seen, fix = _symptom(reply)
    right = not seen and question.expect in reply.content
    if not seen:
        seen = _shown(reply.content)
        fix = "compare the weights: weights.verify; the recipe: recipes.validate"
    return Check(
        name="answer",
        asked=_shown(question.ask),
        expected=_shown(question.expect),
        seen=seen,
        passed=right,
        seconds=reply.seconds,
        fix="" if right else fix,
    )


def agreed(question: Question, first: Reply, second: Reply) -> Check:
    """Judge whether the same greedy request got the same answer twice.

    Other kernels for another batch may choose other words, so two right answers agree.
    """
    same = (first.content, first.reasoning) == (second.content, second.reasoning)
    right = all(question.expect in one.content for one in (first, second))
    passed = second.refusal == "" and (same or right)
    if second.refusal or same:
        seen = second.refusal or "the same twice"
    elif right:
        seen = "both right, in other words"
    else:
        seen = f"{_shown(first.text)}, then {_shown(second.text)}"
    return Check(
        name="same twice",
        asked=f"{_shown(question.ask)} again",
        expected="the same answer",
        seen=seen,
        passed=passed,
        seconds=second.seconds,
        fix=""
        if passed
        else "ranks that do not agree: links.verify, weights.verify, cluster.drift",
    )


def streamed(question: Question, reply: Reply) -> Check:
    """Judge a stream: parts, an end, and the usage that was asked for."""
    symptom, fix = _symptom(reply)
    faults = [
        (symptom, True),
        ("no [DONE] at its end", not reply.ended),
        ("no usage at its end", reply.tokens is None),
        (f"all {reply.tokens} tokens in one part", reply.chunks < 2 < (reply.tokens or 0)),
        (f"{_shown(reply.content)}", question.expect not in reply.content),
    ]
    seen = next((text for text, holds in faults if text and holds), "")
    return Check(
        name="stream",
        asked=f"{_shown(question.ask)} as a stream",
        expected=f"{_shown(question.expect)} in parts, then usage",
        seen=seen or f"{_shown(reply.content)} in {reply.chunks} parts, {reply.tokens} tokens",
        passed=not seen,
        seconds=reply.seconds,
        fix=(fix or "what the server says: cluster.logs") if seen else "",
    )


def called(reply: Reply, parser: str, *, stream: bool = False) -> Check:
    """Judge whether the offered function was called, with arguments that are JSON."""
    name, call = "get_weather", next(iter(reply.calls), None)
    fix = ""
    if reply.refusal:
        seen, fix = reply.refusal, "what the server says: cluster.logs"
    elif call is None and CALL_TAGS.search(reply.content):
        seen = f"the call stands in the text, unread: {_shown(reply.content)}"
        fix = f"tool-call-parser {parser} is not of this model (for Gemma 4, vLLM #38837: pythonic)"
    elif call is None:
        symptom, fix = _symptom(reply)
        seen = symptom or f"no call, but {_shown(reply.content)}"
        fix = fix or f"does its chat template know tools? tool-call-parser: {parser}"
    else:
        seen, fix = f"{call.name}({call.arguments})", _wrong_call(call.name, call.arguments, name)
    return Check(
        name="tool call, streamed" if stream else "tool call",
        asked=_shown(TOOL_ASK),
        expected=f"{name} called, arguments in JSON",
        seen=seen,
        passed=not fix,
        seconds=reply.seconds,
        fix=fix,
    )


def _wrong_call(name: str, arguments: str, wanted: str) -> str:
    """Return what is wrong with a call, "" for nothing."""
    try:
        given = json.loads(arguments)
    except ValueError:
        return "its arguments are no JSON: another tool-call-parser (streamed: vLLM #38946)"
    if name != wanted or not isinstance(given, dict) or not given.get("city"):
        return "not the function that was offered, or without its city"
    return ""


def thought(reply: Reply, parser: str) -> Check:
    """Judge whether thoughts are split off the answer."""
    fix = ""
    if reply.refusal:
        seen, passed = reply.refusal, None if reply.status == 400 else False
    elif tag := TAGS.search(reply.content):
        seen, passed = f"{tag[0].strip()!r} in the answer: {_shown(reply.content)}", False
        fix = f"reasoning-parser {parser} is not of this model (for Gemma 4: vLLM #38855)"
    elif reply.reasoning and not reply.content and reply.finish != "length":
        (seen, fix), passed = _symptom(reply), False
    elif reply.reasoning:
        seen, passed = f"{len(reply.reasoning)} characters of thoughts apart", True
    else:
        seen, passed = "cannot tell: it answered without thinking", None
    return Check(
        name="reasoning",
        asked=_shown(THINK_ASK),
        expected="thoughts apart from the answer",
        seen=seen,
        passed=passed,
        seconds=reply.seconds,
        fix=fix,
    )


def looked(reply: Reply) -> Check:
    """Judge what was seen in an image of one colour; the server says if it takes none."""
    if reply.status == 400 and any(words in reply.error for words in NO_IMAGES):
        return skipped("vision", f"the server takes no images: {reply.error}")
    symptom, fix = _symptom(reply)
    right = not symptom and COLOUR in reply.content.lower()
    return Check(
        name="vision",
        asked=f"{_shown(SIGHT_ASK)} and a {COLOUR} image",
        expected=COLOUR,
        seen=symptom or _shown(reply.content),
        passed=right,
        seconds=reply.seconds,
        fix="" if right else fix or "is its processor staged whole? weights.verify",
    )


def _symptom(reply: Reply) -> tuple[str, str]:
    """Return what is wrong with any answer, and what to do about it; ("", "") for nothing."""
    if reply.refusal:
        return reply.refusal, "what the server says: cluster.logs"
    if garbled := SAME.search(reply.text):
        return f"{GARBLED}: {_shown(garbled[0])}", GARBLED_FIX
    if reply.content or reply.calls:
        return "", ""
    if reply.reasoning and reply.finish == "length":
        return f"no answer: all {reply.tokens} tokens went into thoughts", LONGER
    if reply.reasoning:
        return f"no answer: all of it was taken for thoughts: {_shown(reply.reasoning)}", TAKEN
    return f"an empty answer (finish_reason {reply.finish or 'none'})", "its log: cluster.logs"


def _shown(text: str, most: int = 60) -> str:
    """Return a text as one quoted line, cut where it is long."""
    line = " ".join(text.split())
    return repr(line if len(line) <= most else line[: most - 3] + "...")
