"""A dotted option sets one key of a JSON object: how it is written, and what vLLM makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from sparkfleet.vllm.arguments import format_vllm_args
from sparkfleet.vllm.options import read_command_line, read_vllm_options


@pytest.mark.parametrize(
    ("key", "value", "words", "expected"),
    [
        (
            "compilation_config.cudagraph_capture_sizes",
            [1, 2, 4],
            ("--compilation-config.cudagraph_capture_sizes", "[1,2,4]"),
            {"cudagraph_capture_sizes": [1, 2, 4]},
        ),
        (
            "cc.custom_ops+",
            ["none", "+x"],
            ("--compilation-config.custom_ops+", "none,+x"),
            {"custom_ops": ["none", "+x"]},
        ),
        (
            "cc.custom_ops+",
            ["-x", 1],
            ("--compilation-config.custom_ops+=-x,1",),
            {"custom_ops": ["-x", "1"]},
        ),
        (
            "cc.pass_config",
            {"fuse_norm_quant": True},
            ("--compilation-config.pass_config", '{"fuse_norm_quant":true}'),
            {"pass_config": {"fuse_norm_quant": True}},
        ),
        ("cc.mode", False, ("--compilation-config.mode", "false"), {"mode": False}),
    ],
)
def test_the_value_of_a_dotted_key_is_one_word(
    key: str, value: Any, words: Sequence[str], expected: dict[str, Any]
) -> None:
    assert format_vllm_args({key: value}) == words
    assert read_vllm_options({key: value}).value("compilation-config") == expected
    assert read_command_line(words).value("compilation-config") == expected
