"""`vllm_args` becomes words, each value as one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkfleet.errors import RecipeError
from sparkfleet.vllm.arguments import check_raw_args, format_vllm_args
from sparkfleet.vllm.options import read_command_line, read_vllm_options
from sparkfleet.vllm.owned_options import OWNED_OPTIONS


def test_each_kind_of_value_has_its_form() -> None:
    args = {
        "max-model-len": 65536,
        "enforce_eager": True,
        "enable-prefix-caching": False,
        "quantization": None,
        "ignore-patterns": ["a", "b c"],
        "speculative-config": {"method": "mtp", "num_speculative_tokens": 3},
        "lora-modules": [{"name": "a", "path": "/a"}],
        "middleware": {"repeat": ["one.A", "two.B"]},
        "compilation_config.cudagraph_mode": "PIECEWISE",
        "hf-overrides": {"repeat": 2},
        "compilation_config.use_inductor": True,
        "-q": "fp8",
        "sc": {"method": "mtp"},
        "O": 3,
        "some-text": "-1",
    }
    assert format_vllm_args(args) == (
        "--max-model-len",
        "65536",
        "--enforce-eager",
        "--no-enable-prefix-caching",
        "--ignore-patterns",
        "a",
        "b c",
        "--speculative-config",
        '{"method":"mtp","num_speculative_tokens":3}',
        "--lora-modules",
        '{"name":"a","path":"/a"}',
        "--middleware",
        "one.A",
        "--middleware",
        "two.B",
        "--compilation-config.cudagraph_mode",
        "PIECEWISE",
        "--hf-overrides",
        '{"repeat":2}',
        "--compilation-config.use_inductor",
        "true",
        "--quantization",
        "fp8",
        "--speculative-config",
        '{"method":"mtp"}',
        "-O",
        "3",
        "--some-text=-1",
    )


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("-ep", False, ("--no-enable-expert-parallel",)),
        ("-ep", True, ("--enable-expert-parallel",)),
        ("no-ep", True, ("--no-enable-expert-parallel",)),
        ("no-enable-prefix-caching", False, ("--enable-prefix-caching",)),
        ("no_enable_prefix_caching", True, ("--no-enable-prefix-caching",)),
        ("-no-enable-prefix-caching", True, ("--no-enable-prefix-caching",)),
        ("--no-enable-prefix-caching", None, ()),
        ("-max-model-len", 4096, ("--max-model-len", "4096")),
        ("O", {"mode": 3}, ("--compilation-config", '{"mode":3}')),
        ("-O.mode", 3, ("--compilation-config.mode", "3")),
        ("-O", "2", ("-O", "2")),
        ("-cc.mode", 3, ("--compilation-config.mode", "3")),
        (
            "-ep",
            {"repeat": [True, False]},
            ("--enable-expert-parallel", "--no-enable-expert-parallel"),
        ),
    ],
)
def test_each_spelling_of_an_option_has_one_in_words(
    key: str, value: Any, words: tuple[str, ...]
) -> None:
    assert format_vllm_args({key: value}) == words
    read = read_vllm_options({key: value}).by_name()
    if words:
        assert read_command_line(words).by_name().keys() == read.keys()
    if isinstance(value, bool):
        assert read_command_line(words).by_name() == read


@given(value=st.dictionaries(st.text(), st.text() | st.integers(), max_size=3))
def test_c32_a_mapping_round_trips_as_json(value: dict[str, object]) -> None:
    _, text = format_vllm_args({"speculative-config": value})
    assert json.loads(text) == value


@pytest.mark.parametrize("name", [*OWNED_OPTIONS, "tp", "pp", "tensor_parallel_size", "--port"])
def test_c34_an_option_that_sparkfleet_sets_is_refused(name: str) -> None:
    with pytest.raises(RecipeError, match="set by sparkfleet itself"):
        format_vllm_args({name: 1})


SPELLINGS = (
    "--tp=2",
    "-tp",
    "-tp=2",
    "--tensor_parallel_size=2",
    "--tensor-par",
    "--master",
    "--tensor-parallel-s=2",
    "-t",
    "--pp",
    "-n2",
    "-n",
    "-r1",
    "--nnodes=2",
    "--master_port",
    "--headless",
    "--no-headless",
    "--port=8001",
    "--api-key=secret",
)


@pytest.mark.parametrize("word", SPELLINGS)
def test_c34_a_raw_option_that_sparkfleet_sets_is_refused_in_every_spelling(word: str) -> None:
    with pytest.raises(RecipeError, match="set by sparkfleet itself") as caught:
        check_raw_args(["--enforce-eager", word, "2"])
    assert "secret" not in str(caught.value)


def test_raw_words_are_as_they_are_written() -> None:
    words = ["-O3", "--no-enable-prefix-caching", "-q", "fp8", "-ep", "--x.y={'z': 1}", "a b", "-1"]
    assert check_raw_args(words) == tuple(words)
