"""A dotted option sets one key of a JSON object: how it is written, and what vLLM makes of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.vllm.arguments import format_vllm_args
from sparkfleet.vllm.options import read_command_line, read_vllm_options
from tests.judged import Recipes


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


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-cc.ops", '["a"]', "-cc.ops", '["b"]'], {"ops": ["a", "b"]}),
        (["-cc.ops+=a,b", "-cc.ops", '["c"]'], {"ops": ["a", "b", "c"]}),
        (["-cc.pass.b", "2", "-cc.pass", '{"a": 1}'], {"pass": {"a": 1, "b": 2}}),
        (["-cc.pass", "1", "-cc.pass.b", "2"], {"pass": {"b": 2}}),
        (["-cc.mode", "1", "--compilation-config.ops+", "x"], {"ops": ["x"]}),
        (["--compilation_config.a=1", "--compilation-config.b=2"], {"a": 1, "b": 2}),
        (["-cc.a", "1", "--compilation-config.b", "2", "-cc.c", "3"], {"b": 2}),
        (["-cc.a", "1", "-cc", '{"b": 2}'], {"a": 1}),
        (["-cc.a.b", "64k", "-cc.a.c=x", "-cc.a.d="], {"a": {"b": 64000, "c": "x", "d": ""}}),
    ],
)
def test_dotted_keys_are_merged_as_vllm_merges_them(
    words: list[str], expected: dict[str, Any]
) -> None:
    assert read_command_line(words).value("compilation-config") == expected


MTP = {"method": "mtp", "num_speculative_tokens": 2}


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"sc": MTP, "speculative_config.num_speculative_tokens": 3},
         {"method": "mtp", "num_speculative_tokens": 3}),
        ({"sc.method": "ngram", "speculative_config": json.dumps(MTP)},
         {"method": "ngram", "num_speculative_tokens": 2}),
        ({"sc": MTP, "sc.method": None}, {"num_speculative_tokens": 2}),
        ({"sc": MTP, "sc.method": None, "speculative-config.method": "ngram"},
         {"method": "ngram", "num_speculative_tokens": 2}),
        ({"sc": {"a": {"b": 1, "c": 2}}, "sc.a.b": None, "sc.d.e": None}, {"a": {"c": 2}}),
    ],
)  # fmt: skip
def test_a_dotted_key_is_laid_into_the_object_of_its_option(
    args: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert read_vllm_options(args).value("speculative-config") == expected
    option, text = format_vllm_args(args)
    assert (option, json.loads(text)) == ("--speculative-config", expected)
    assert MTP == {"method": "mtp", "num_speculative_tokens": 2}


def test_an_object_whose_last_key_is_null_is_not_given() -> None:
    args = {"cc": {"mode": 3}, "cc.mode": None}
    assert read_vllm_options(args).find("compilation-config") is None
    assert format_vllm_args(args) == ()


def test_lists_below_are_added_to_and_not_changed() -> None:
    ops = ["none"]
    args = {"cc": {"custom_ops": ops}, "cc.custom_ops+": ["+x"]}
    assert read_vllm_options(args).value("compilation-config") == {"custom_ops": ["none", "+x"]}
    assert ops == ["none"]


@pytest.mark.parametrize(
    ("args", "words", "found"),
    [
        ({"sc": MTP}, ["-sc.num_speculative_tokens", "3"], True),
        ({"sc.method": "mtp"}, ["-sc.num_speculative_tokens", "3"], True),
        ({}, ["-cc.mode", "1", "--compilation-config.custom_ops+", "x"], True),
        ({}, ["-cc.mode", "1", "-cc.custom_ops+", "x"], False),
        ({"sc": MTP, "sc.num_speculative_tokens": 3}, [], False),
        ({"sc.method": "mtp"}, ["--speculative_config.num_speculative_tokens", "3"], False),
        ({"sc": None}, ["-sc.method", "mtp"], False),
    ],
)
def test_keys_that_vllm_would_drop_are_reported(
    tmp_path: Path, args: dict[str, Any], words: list[str], *, found: bool
) -> None:
    recipe = {"vllm_model": "a/b", "vllm_args": args, "vllm_raw_args": words}
    assert Recipes(tmp_path).found(recipe, among=("one_object",)) == (
        {"one_object": "error"} if found else {}
    )


def test_an_inventory_sets_one_key_of_a_recipes_object(tmp_path: Path) -> None:
    recipe = {"vllm_model": "a/b", "vllm_args": {"speculative-config": {**MTP, "method": "ngram"}}}
    own = {"speculative_config.num_speculative_tokens": 0}
    assert Recipes(tmp_path).found(recipe, vllm_args=own)["draft"] == "error"
