"""Files of a model that nest without end are damaged files, not a bug."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparkfleet.errors import InputError
from sparkfleet.fit.config import parse_model_config
from sparkfleet.onhost.shared.model_shape import read_shape
from sparkfleet.onhost.shared.safetensors import header_problem, index_problem
from tests.budget import MANY, limit_cpu_time, scale_examples

DEEP = "[" * 100_000
KEYS = ("w", "__metadata__", "dtype", "shape", "data_offsets", "weight_map")


def _write(folder: Path) -> Path:
    header = DEEP.encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    (folder / "config.json").write_text(DEEP)
    return folder / "model.safetensors"


def test_a_header_that_nests_without_end_is_damaged(tmp_path: Path) -> None:
    path = _write(tmp_path)
    assert header_problem(path, path.stat().st_size)


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


@settings(max_examples=scale_examples(60, thorough=MANY), deadline=None)
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
        assert isinstance(header_problem(path, path.stat().st_size), str | None)
        assert isinstance(index_problem(index, nested=False), str | None)
        assert isinstance(read_shape(folder)["tensors"], list)
