"""Answers to a chat request, in the form of vLLM 0.32, recorded in tests/outputs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

PRODUCT = re.compile(r"(\d+) ?\* ?(\d+)")
TOKENS = 4  # of every answer that may end
THOUGHTS = "I stand in for one who thinks."
ARGUMENTS = ('{"city": ', '"Oslo"}')
UNPARSED = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


def refusal(body: dict[str, Any], options: dict[str, str]) -> str:
    """Return why vLLM answers 400, "" if it does not."""
    if body.get("tools") and "enable-auto-tool-choice" not in options:
        return (
            '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
        )
    most = int(options.get("max-model-len", body["max_tokens"]))
    if body["max_tokens"] > most:
        asked = f"max_tokens={body['max_tokens']} cannot be greater than max_model_len={most}"
        return f"{asked}. Please request fewer output tokens."
    if not isinstance(body["messages"][-1]["content"], str):
        return f"{body['model']} is not a multimodal model"
    return ""


def message(body: dict[str, Any], options: dict[str, str], wrong: dict[str, Any]) -> dict[str, Any]:
    """Return the message of the answer."""
    found: dict[str, Any] = {"role": "assistant", "content": _answer(body), "reasoning": None}
    thinks = (body.get("chat_template_kwargs") or {}).get("enable_thinking")
    if "answer" in wrong:
        found["content"] = wrong["answer"]
    elif body.get("tools"):
        function = {"name": "get_weather", "arguments": "".join(ARGUMENTS)}
        call = {"id": "chatcmpl-tool-1", "type": "function", "function": function}
        unparsed = wrong.get("unparsed")
        found |= {"content": UNPARSED} if unparsed else {"content": None, "tool_calls": [call]}
    elif thinks and "reasoning-parser" in options:
        if wrong.get("unparsed"):
            found["content"] = f"<think>{THOUGHTS}</think>{found['content']}"
        else:
            found["reasoning"] = THOUGHTS
    return found


def _answer(body: dict[str, Any]) -> str:
    product = PRODUCT.search(str(body["messages"][-1]["content"]))
    return str(int(product[1]) * int(product[2])) if product else "I stand in for a model."


def whole(said: dict[str, Any], tokens: int, body: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request without `stream`."""
    finish = "tool_calls" if said.get("tool_calls") else "stop"
    choice = {"index": 0, "message": said, "finish_reason": finish}
    object_ = {"object": "chat.completion", "model": body["model"], "choices": [choice]}
    return {**object_, "usage": _usage(tokens, body)}


def chunks(
    said: dict[str, Any], tokens: int, body: dict[str, Any], *, speed: float
) -> Iterator[dict[str, Any]]:
    """Yield the parts of a stream, `speed` a second; usage comes last, if it was asked for."""
    named = {"object": "chat.completion.chunk", "model": body["model"]}

    def part(finish: str | None = None, **delta: Any) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {**named, "choices": [choice]}

    yield part(role="assistant", content="")
    for delta in _deltas(said, tokens):
        if speed:
            time.sleep(1 / speed)
        yield part(**delta)
    yield part("tool_calls" if said.get("tool_calls") else "stop", content="")
    if (body.get("stream_options") or {}).get("include_usage"):
        yield {**named, "choices": [], "usage": _usage(tokens, body)}


def _deltas(said: dict[str, Any], tokens: int) -> Iterator[dict[str, Any]]:
    if said.get("reasoning"):
        yield {"reasoning": said["reasoning"]}
    for call in said.get("tool_calls", ()):
        own = {**call, "index": 0}
        yield {"tool_calls": [{**own, "function": {"name": "get_weather", "arguments": ""}}]}
        for piece in ARGUMENTS:
            yield {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}
    text = said["content"] or ""
    size = max(1, len(text) // tokens)
    for at in range(tokens if text else 0):  # one that may not end says it again
        start = at * size % len(text)
        yield {"content": text[start : start + size]}


def _usage(tokens: int, body: dict[str, Any]) -> dict[str, Any]:
    """Return the usage: a word is a token here, and the template adds some."""
    read = 8 + len(str(body["messages"][-1]["content"]).split())
    return {"prompt_tokens": read, "completion_tokens": tokens, "total_tokens": read + tokens}
