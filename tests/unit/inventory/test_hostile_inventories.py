"""Values that no one writes by hand are problems with a place, never a bug."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from sparkfleet.cli.inventory import output
from sparkfleet.errors import InventoryError
from sparkfleet.inventory.loading import load_inventory
from sparkfleet.vllm.dotted_options import format_word

HUGE = "9" * 400


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: !!timestamp x", "is not a valid timestamp"),
        (f"all: {{vars: {{vllm_port: {HUGE}}}, hosts: {{h: {{}}}}}}", "vllm_port"),
        (f"all: {{vars: {{guard_loading: {HUGE}}}, hosts: {{h: {{}}}}}}", "guard_loading"),
        (f"all: {{vars: {{guard_loading: {HUGE}GiB}}, hosts: {{h: {{}}}}}}", "guard_loading"),
    ],
    ids=["timestamp", "port", "size", "size with unit"],
)
def test_a_hostile_value_is_named_with_its_place(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "i.yml"
    path.write_text(text)
    with pytest.raises(InventoryError, match=expected) as caught:
        load_inventory([str(path)])
    assert f"{path}:1:" in str(caught.value)
    assert len(str(caught.value)) < 2000


def test_no_rank_has_variables_of_its_own_where_they_are_null(tmp_path: Path) -> None:
    path = tmp_path / "i.yml"
    path.write_text("all: {vars: {cluster_rank_vars: null}, hosts: {h: {}}}")
    assert load_inventory([str(path)]).hosts


def test_a_date_inside_an_option_is_written_as_text() -> None:
    value = {"today": dt.date(2026, 11, 28)}
    assert format_word(value) == '{"today":"2026-11-28"}'


def test_an_exception_in_the_fast_path_is_left_to_the_slow_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def explode(*_: object) -> str:
        raise ValueError

    monkeypatch.setattr(output, "load_task_inventory", explode)
    assert output.try_fast_path(["inventory.list"]) is False
