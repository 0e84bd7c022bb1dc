"""Commands in hints and help name the door that the user came through."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sparkfleet import door
from sparkfleet.errors import Problem, UsageError
from sparkfleet.model import Outcome, Severity, Status, Verdict


@pytest.fixture
def invoke() -> Iterator[None]:
    """Let the user run `invoke`."""
    door.set_door("invoke")
    yield
    door.set_door(door.DEFAULT)


def test_a_command_names_the_installed_program_by_default() -> None:
    assert door.command_name("cluster.up") == "sparkfleet cluster.up"
    assert door.expand_commands("run {task:doctor}") == "run sparkfleet doctor"


@pytest.mark.usefixtures("invoke")
def test_a_command_names_invoke_in_a_checkout() -> None:
    assert door.command_name("cluster.up") == "invoke cluster.up"
    assert door.expand_commands("{task:lab.up} --hosts 2, {tp}") == "invoke lab.up --hosts 2, {tp}"


@pytest.mark.usefixtures("invoke")
def test_hints_and_fixes_are_expanded_wherever_they_are_shown() -> None:
    text = "start it: {task:cluster.up}"
    shown = "start it: invoke cluster.up"
    verdict = Verdict(
        check="a.b",
        severity=Severity.ERROR,
        host="h",
        subject="s",
        expected="e",
        seen="x",
        fix=text,
    )
    assert Problem(message="down", hint=text).hint == shown
    assert UsageError("down", hint=text).hint == shown
    assert Outcome(host="h", status=Status.FAILED, hint=text).hint == shown
    assert verdict.fix == shown
