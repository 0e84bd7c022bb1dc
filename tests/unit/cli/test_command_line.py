"""Optional arguments without a name: `doctor LOG`, `init DIR`, `docs PAGE`."""

from __future__ import annotations

import sys

import pytest

from sparkfleet.cli.command_line import is_argument_typed
from sparkfleet.cli.doctor import tasks as doctor_tasks
from sparkfleet.cli.init import options as init_options


@pytest.mark.parametrize(
    ("line", "typed"),
    [
        ("invoke doctor", False),
        ("invoke doctor x.log", True),
        ("invoke doctor -", True),
        ("invoke doctor --output json", False),
        ("invoke doctor --output json x.log", True),
        ("invoke doctor --log x.log", False),
        ("invoke cluster.up --tp 2", False),
    ],
)
def test_a_log_is_positional_only_where_it_is_typed(
    line: str, *, typed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", line.split())
    assert is_argument_typed("doctor", doctor_tasks.WITH_VALUE) is typed


@pytest.mark.parametrize(
    ("line", "typed"),
    [
        ("sparkfleet init --host a my", True),
        ("sparkfleet init --host a --yes", False),
        ("sparkfleet init", False),
    ],
)
def test_a_folder_is_positional_only_where_it_is_typed(
    line: str, *, typed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", line.split())
    assert is_argument_typed("init", init_options.WITH_VALUE) is typed
