"""`plan` reads no clock, process or host: it is a function of what was inspected and of the run."""

from __future__ import annotations

import ast
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.clock import Moment
from sparkfleet.actions.deploy.start_action import begin_replacement
from sparkfleet.actions.run.identity import build_lock_holder
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import RunState
from sparkfleet.playbook import vocabulary
from sparkfleet.playbook.engine import PlaybookRunner
from sparkfleet.playbook.syntax import Play, Task
from tests.action_source import find_reached_code, list_actions
from tests.scenes import assigned, scene
from tests.surveys import make_survey

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
OUTSIDE = ("run.pool", "run.clock", "run.report", "datetime.now", "Path.cwd")
MODULES = ("time.", "os.", "getpass.", "platform.", "secrets.", "random.")


class Ticking:
    """A clock that moves on by a minute each time that it is read."""

    def __init__(self) -> None:
        self.minutes = 0

    def __call__(self) -> Moment:
        self.minutes += 1
        date = NOON + timedelta(minutes=self.minutes)
        return Moment(date=date, ticks=60.0 * self.minutes)


@pytest.mark.parametrize("action", list_actions(), ids=lambda action: action.name)
def test_a_plan_uses_nothing_outside_the_run(action: type[Action[Any]]) -> None:
    code = find_reached_code(action, ("plan", "decide"), callbacks=False)
    used = {
        name
        for tree in code
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and (name := ast.unparse(node)).startswith((*OUTSIDE, *MODULES))
    }
    assert used == set()


def test_the_clock_is_read_once_for_each_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    class Look(Action[NoArgs]):
        name = "look"

        def plan(self, run: RunContext, inspected: Any) -> dict[str, Plan]:
            seen.append(run.now.date.minute)
            return {name: Plan() for name in inspected}

        def settle(self, run: RunContext, plans: Any) -> RunState:
            seen.append(run.now.date.minute)
            return RunState()

    monkeypatch.setattr(vocabulary, "ACTIONS", {"look": Look})
    tasks = (Task(name="a", action="look"), Task(name="b", action="look"))
    with scene(tmp_path, clock=Ticking()) as made:
        plays = [Play(name="p", hosts="all", tasks=tasks)]
        began = made.now.date.minute
        PlaybookRunner(made).run(assigned(made, plays))
    assert seen == [began + 1, began + 1, began + 2, began + 2]


def test_the_record_of_a_replacement_has_the_identity_of_the_run(tmp_path: Path) -> None:
    survey = make_survey()
    with scene(tmp_path) as made:
        made.holder = build_lock_holder("cluster.up", NOON)
        first = begin_replacement(made, {"spark-01": survey})
        assert first == begin_replacement(made, {"spark-01": survey})
    assert first.states["spark-01"].holder == made.holder
    assert made.holder["since"] == "2026-11-29 12:00:00"
    assert made.holder["command"] == "cluster.up"
