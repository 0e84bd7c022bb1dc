"""Replies of the endpoint to chat requests, complete or streamed; pure.

The reasoning of a model is in `reasoning`, which "used to be called reasoning_content" (vLLM's
documentation from 0.11.2 on); both are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sparkfleet.remote.answers import SHAPE_ERRORS
from sparkfleet.values import (
    convert_count,
    convert_integer,
    convert_number,
    convert_string,
    parse_json,
)

DONE = "[DONE]"  # the last event of a stream
OK = 200
# of a request whose answer comes piece by piece, with the counts of tokens at its end
STREAM = {"stream": True, "stream_options": {"include_usage": True}}
LOGS_FIX = "check the server's log: {task:cluster.logs}"  # of a request without an answer
SHOWN = 200  # characters of an event that is not JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool call; `arguments` is a text, expected to be JSON."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One reply. `began` is on a clock shared by replies to one batch; other times are seconds.

    `first` and `last` are the times of the first and the last token of a stream, after `began`;
    `chunks` counts the events with a part of the answer. `ended`: the stream is complete.
    """

    status: int
    seconds: float
    began: float
    error: str = ""
    content: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish: str = ""
    prompt_tokens: int | None = None
    tokens: int | None = None
    first: float | None = None
    last: float | None = None
    chunks: int = 0
    ended: bool = False

    @property
    def refusal(self) -> str:
        """Why there is no answer, "" if there is one."""
        if self.status == OK:
            return ""
        why = f"{self.status}: {self.error}" if self.status else f"nothing: {self.error}"
        return f"/v1/chat/completions answered {why}"

    @property
    def text(self) -> str:
        """The answer, or the reasoning if it used all tokens."""
        return self.content or self.reasoning


def parse_reply(reply: Mapping[str, Any]) -> Reply:
    """Return the reply in an answer of `onhost/deployment/chat.py`.

    One that is not a chat completion is a reply with status 0, whose error says so.
    """
    times: dict[str, Any] = {
        name: convert_number(reply[name], strict=True) for name in ("seconds", "began")
    }
    status = convert_integer(reply["status"], strict=True)
    if status != OK:
        return Reply(status=status, error=_extract_error_message(reply["content"]), **times)
    try:
        fields = (
            _parse_stream(reply["events"])
            if reply["events"]
            else _parse_completion(reply["content"] or {})
        )
    except SHAPE_ERRORS as error:
        return Reply(status=0, error=f"no chat completion ({str(error)[:SHOWN]})", **times)
    return Reply(status=OK, **times, **fields)


def _parse_completion(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a reply that came whole."""
    choice: Mapping[str, Any] = next(iter(content.get("choices", ())), {})
    message = choice.get("message") or {}
    calls = (call.get("function") or {} for call in message.get("tool_calls") or ())
    return {
        "content": _read_text(message, "content"),
        "reasoning": _extract_reasoning(message),
        "calls": tuple(
            ToolCall(name=_read_text(call, "name"), arguments=_read_text(call, "arguments"))
            for call in calls
        ),
        "finish": _read_text(choice, "finish_reason"),
        **_extract_usage(content),
    }


def _read_text(fields: Mapping[str, Any], name: str) -> str:
    """Return a text that may be missing or null, "" then."""
    return convert_string(fields.get(name) or "")


def _extract_reasoning(message: Mapping[str, Any]) -> str:
    return _read_text(message, "reasoning") or _read_text(message, "reasoning_content")


def _extract_usage(content: Mapping[str, Any]) -> dict[str, Any]:
    usage = content.get("usage") or {}
    names = {"prompt_tokens": "prompt_tokens", "tokens": "completion_tokens"}
    counts = {field: usage.get(name) for field, name in names.items()}
    return {
        field: None if count is None else convert_count(count) for field, count in counts.items()
    }


def _extract_error_message(content: Any) -> str:
    """Return vLLM's message in an error response, else the response."""
    text = str(content or "")
    try:
        return str(parse_json(text)["error"]["message"])
    except (ValueError, TypeError, KeyError):
        return text


def _parse_stream(events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the fields of a streamed reply."""
    datas = [
        (convert_number(event["at"], strict=True), convert_string(event["data"]))
        for event in events
    ]
    parts = [(at, _load_event(data)) for at, data in datas if data != DONE]
    timed = [(at, part["choices"][0]) for at, part in parts if part.get("choices")]
    deltas = [choice.get("delta") or {} for _, choice in timed]
    failed = next((part["error"] for _, part in parts if "error" in part), None)
    last: Mapping[str, Any] = parts[-1][1] if parts else {}
    return {
        "error": str(failed or ""),
        "content": "".join(_read_text(delta, "content") for delta in deltas),
        "reasoning": "".join(map(_extract_reasoning, deltas)),
        "calls": _merge_tool_calls(deltas),
        "finish": next(filter(None, (_read_text(item, "finish_reason") for _, item in timed)), ""),
        "first": timed[0][0] if timed else None,
        "last": timed[-1][0] if timed else None,
        "chunks": sum(_has_output(delta) for delta in deltas),
        "ended": bool(datas) and datas[-1][1] == DONE,
        **_extract_usage(last),
    }


def _load_event(data: str) -> Mapping[str, Any]:
    """Return an event, as an error of the server's where it is not a JSON object."""
    try:
        event = parse_json(data)
    except (ValueError, RecursionError):
        event = None
    return event if isinstance(event, dict) else {"error": f"not a JSON object: {data[:SHOWN]}"}


def _has_output(delta: Mapping[str, Any]) -> bool:
    return bool(delta.get("content") or _extract_reasoning(delta) or delta.get("tool_calls"))


def _merge_tool_calls(deltas: Iterable[Mapping[str, Any]]) -> tuple[ToolCall, ...]:
    """Return the tool calls of a stream, joined by index."""
    names: dict[int, str] = {}
    arguments: dict[int, str] = {}
    for delta in deltas:
        for piece in delta.get("tool_calls") or ():
            at = piece.get("index") or 0
            function = piece.get("function") or {}
            names[at] = names.get(at, "") + _read_text(function, "name")
            arguments[at] = arguments.get(at, "") + _read_text(function, "arguments")
    return tuple(ToolCall(name=names[at], arguments=arguments[at]) for at in sorted(names))
