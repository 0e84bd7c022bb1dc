"""Files of a model that nest without end are damaged files, not a bug."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparkfleet.errors import InputError
from sparkfleet.fit.config import parse_model_config
from sparkfleet.onhost.shared.weights.model_shape import read_shape
from sparkfleet.onhost.shared.weights.safetensors import find_header_problem, find_index_problem
from tests.budget import MANY, limit_cpu_time, scale_examples
from tests.mutations import NUMBERS, create_chance, dump_tree, mutate_tree

DEEP = "[" * 100_000
KEYS = ("w", "__metadata__", "dtype", "shape", "data_offsets", "weight_map")


def _write(folder: Path) -> Path:
    header = DEEP.encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    (folder / "config.json").write_text(DEEP)
    return folder / "model.safetensors"


def test_a_header_that_nests_without_end_is_damaged(tmp_path: Path) -> None:
    path = _write(tmp_path)
    assert find_header_problem(path, path.stat().st_size)


def test_a_folder_whose_header_nests_without_end_has_no_tensors(tmp_path: Path) -> None:
    _write(tmp_path)
    assert read_shape(tmp_path)["tensors"] == []


def test_a_config_that_nests_without_end_is_an_error_of_the_file() -> None:
    with pytest.raises(InputError, match=r"config\.json is not JSON"):
        parse_model_config(DEEP)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=8,
)


@settings(max_examples=scale_examples(20, thorough=MANY), deadline=None)
@given(JSON.map(json.dumps).map(str.encode) | st.binary(max_size=60), st.integers(-9, 9))
@example(DEEP.encode(), 0)
def test_any_header_has_a_verdict(
    tmp_path_factory: pytest.TempPathFactory, header: bytes, shift: int
) -> None:
    folder = tmp_path_factory.getbasetemp()
    path = folder / "model.safetensors"
    index = folder / "model.safetensors.index.json"
    path.write_bytes(max(len(header) + shift, 0).to_bytes(8, "little") + header)
    index.write_bytes(header)
    with limit_cpu_time():
        assert isinstance(find_header_problem(path, path.stat().st_size), str | None)
        assert isinstance(find_index_problem(index, nested=False), str | None)
        assert isinstance(read_shape(folder)["tensors"], list)


HEADER = {
    "__metadata__": {"format": "pt"},
    "a.weight": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]},
    "model.layers.0.q_proj.weight": {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [12, 16]},
}
INDEX = {
    "metadata": {"total_size": 16},
    "weight_map": {"a.weight": "model.safetensors", "b": "model-00002-of-00002.safetensors"},
}
LIES = (0, 1, 2**63, 2**64 - 1, 2**40, 99_999_999, 100_000_001)  # bytes of a header, as it says


@pytest.mark.timeout(7200)
@settings(max_examples=scale_examples(20, thorough=MANY), deadline=None)
@given(NUMBERS)
def test_a_changed_header_has_a_verdict(
    tmp_path_factory: pytest.TempPathFactory, number: int
) -> None:
    chance = create_chance(number)
    folder = tmp_path_factory.getbasetemp()
    path = folder / "model.safetensors"
    index = folder / "model.safetensors.index.json"
    header = dump_tree(chance, mutate_tree(chance, HEADER, [INDEX]))
    size = chance.choice((*[len(header)] * 12, max(len(header) - 1, 0), len(header) + 8, *LIES))
    path.write_bytes(size.to_bytes(8, "little") + header + b"x" * chance.choice((0, 15, 16, 17)))
    index.write_bytes(dump_tree(chance, mutate_tree(chance, INDEX, [HEADER])))
    with limit_cpu_time():
        assert isinstance(find_header_problem(path, path.stat().st_size), str | None)
        assert isinstance(find_index_problem(index, nested=chance.random() < 1 / 2), str | None)
        assert isinstance(read_shape(folder)["tensors"], list)


def test_an_index_whose_file_names_are_too_long_is_damaged(tmp_path: Path) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "x" * 5000}}))
    assert find_index_problem(index, nested=False) == "no weight_map"
