"""Selection of tests by the options of a run."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from tests import conftest


@dataclass(kw_only=True)
class Item:
    """Stands for a test."""

    nodeid: str
    marks: set[str] = field(default_factory=set)
    obj: Any = None

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.marks else None

    def add_marker(self, name: str) -> None:
        self.marks.add(name)


def _select(**options: object) -> tuple[list[str], list[str]]:
    """Return the names of the tests that a run starts, and of those that it leaves out."""
    items: Any = [
        Item(nodeid="tests/unit/x.py::plain"),
        Item(nodeid="tests/unit/x.py::variation", marks={"thorough"}),
        Item(nodeid="tests/fleet/y.py::lab"),
    ]
    left_out: list[str] = []

    def note(items: list[Item]) -> None:
        left_out.extend(item.nodeid for item in items)

    known: Mapping[str, object] = {
        "--thorough": False,
        "--variations": False,
        "--part": (1, 1),
        **options,
    }
    hook = SimpleNamespace(pytest_deselected=note)
    config: Any = SimpleNamespace(getoption=known.__getitem__, hook=hook)
    conftest.pytest_collection_modifyitems(config, items)
    return [item.nodeid.split("::")[1] for item in items], [
        name.split("::")[1] for name in left_out
    ]


@pytest.mark.parametrize(
    ("options", "chosen", "left_out"),
    [
        ({}, ["plain", "lab"], ["variation"]),
        ({"--variations": True}, ["variation"], ["plain", "lab"]),
        ({"--thorough": True}, ["plain", "variation", "lab"], []),
    ],
    ids=["default", "variations", "thorough"],
)
def test_variations_run_when_they_are_requested(
    options: Mapping[str, bool], chosen: list[str], left_out: list[str]
) -> None:
    assert _select(**options) == (chosen, left_out)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_each_test_is_in_one_part(count: int) -> None:
    parts = [_select(**{"--part": (number, count)})[0] for number in range(1, count + 1)]
    assert sorted(name for part in parts for name in part) == ["lab", "plain"]


@pytest.mark.parametrize("text", ["0/4", "5/4", "4", "a/4", "1/0", "-1/4"])
def test_a_part_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected a part such as 1/4"):
        conftest.parse_part(text)
