"""`vllm_args` becomes words, each value as one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkfleet.errors import RecipeError
from sparkfleet.launch.arguments import OURS, flags


def test_each_kind_of_value_has_its_form() -> None:
    args = {
        "max-model-len": 65536,
        "enforce_eager": True,
        "enable-prefix-caching": False,
        "quantization": None,
        "allowed-origins": ["a", "b c"],
        "speculative-config": {"method": "mtp", "num_speculative_tokens": 3},
    }
    assert flags(args) == (
        "--max-model-len",
        "65536",
        "--enforce-eager",
        "--no-enable-prefix-caching",
        "--allowed-origins",
        "a",
        "b c",
        "--speculative-config",
        '{"method":"mtp","num_speculative_tokens":3}',
    )


@given(value=st.dictionaries(st.text(), st.text() | st.integers(), max_size=3))
def test_c32_a_mapping_round_trips_as_json(value: dict[str, object]) -> None:
    _, text = flags({"speculative-config": value})
    assert json.loads(text) == value


@pytest.mark.parametrize("name", [*OURS, "tp", "pp", "tensor_parallel_size", "--port"])
def test_c34_an_option_that_is_ours_is_refused(name: str) -> None:
    with pytest.raises(RecipeError, match="set by sparkfleet itself"):
        flags({name: 1})
