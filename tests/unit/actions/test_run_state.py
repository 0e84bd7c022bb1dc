"""The state of a run has typed fields, and only the engine changes it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.actions.action import Action, Executed, NoArgs, Plan, Planned
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import Replacement, RunState
from sparkfleet.cli.cluster.render import build_render_play
from sparkfleet.errors import CommandError, PlaybookError
from sparkfleet.model import Host, Status
from sparkfleet.playbook import vocabulary
from sparkfleet.playbook.engine import PlaybookRunner
from sparkfleet.playbook.syntax import Play, Task
from sparkfleet.playbook.task_order import find_order_problems
from sparkfleet.playbook.vocabulary import ACTIONS, INTERNAL
from sparkfleet.remote.pool import Answers
from sparkfleet.report.events import Note
from tests.scenes import Recorder, assigned, scene
from tests.source import parse_package

FIELDS = {item.name for item in fields(RunState)}
CHANGED = Replacement()
# helpers in other modules that read a field for the action that calls them
HELPERS = {
    "find_endpoint": "launch",
    "start_deployment_role": "launch",
    "record_step": "replacement",
}


def test_an_update_changes_only_the_fields_that_it_sets() -> None:
    state = RunState(advice=("a",)).merge(RunState(replacement=CHANGED))
    assert state == RunState(advice=("a",), replacement=CHANGED)
    assert state.names() == {"advice", "replacement"}
    assert state.missing(("facts", "advice", "launch")) == ("facts", "launch")


REQUIRED = {name for action in vocabulary.CLASSES | INTERNAL for name in ACTIONS[action].requires}


@pytest.mark.parametrize("name", sorted(REQUIRED))
def test_a_result_that_is_missing_is_named_in_plain_words(tmp_path: Path, name: str) -> None:
    with scene(tmp_path) as made, pytest.raises(PlaybookError, match=f"needs {name}, and no"):
        getattr(made, name)


def test_the_engine_stores_what_a_plan_provides_and_reports_its_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Learn(Action[NoArgs]):
        name = "learn"
        provides = ("advice",)

        def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Planned:
            return Planned(
                plans={name: Plan() for name in inspected},
                provided=RunState(advice=("slow",)),
                notes=(Note(text="look"),),
                summary=("done",),
            )

        def settle(self, run: RunContext, plans: Mapping[str, Plan]) -> RunState:
            return RunState(advice=(*(run.state.advice or ()), "fast"))

    monkeypatch.setattr(vocabulary, "ACTIONS", {"learn": Learn})
    with scene(tmp_path) as made:
        plays = [Play(name="p", hosts="all", tasks=(Task(name="learn", action="learn"),))]
        ended = PlaybookRunner(made).run(assigned(made, plays))
        assert ended.recap["spark-01"][Status.OK] == 1
        assert made.state.advice == ("slow", "fast")
        assert made.summary == ["done"]
        assert isinstance(made.reporter, Recorder)
        assert made.reporter.notes() == ["look"]


def test_an_action_cannot_set_a_field_that_it_does_not_declare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Sneaky(Action[NoArgs]):
        name = "sneaky"

        def settle(self, run: RunContext, plans: Mapping[str, Plan]) -> RunState:
            return RunState(advice=())

    monkeypatch.setattr(vocabulary, "ACTIONS", {"sneaky": Sneaky})
    with scene(tmp_path) as made:
        plays = [Play(name="p", hosts="all", tasks=(Task(name="s", action="sneaky"),))]
        with pytest.raises(TypeError, match="without declaring it"):
            PlaybookRunner(made).run(assigned(made, plays))


def _make_storing(*fields: str) -> type[Action[NoArgs]]:
    """Return an action that declares `fields`, and stores others when applied and undone."""

    class Storing(Action[NoArgs]):
        name = "storing"
        provides = fields

        def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
            return {name: Plan(work=True) for name in inspected}

        def apply_all(
            self, run: RunContext, hosts: tuple[Host, ...], plans: Mapping[str, Plan]
        ) -> Executed[Plan]:
            failed = {hosts[0].name: CommandError("no", host=hosts[0].name)}
            answers = Answers(values={hosts[1].name: plans[hosts[1].name]}, errors=failed)
            return Executed(answers=answers, provided=RunState(advice=("applied",)))

        def roll_back(
            self, run: RunContext, hosts: tuple[Host, ...], plans: Mapping[str, Plan]
        ) -> Executed[None]:
            answers: Answers[None] = Answers(values={}, errors={})
            return Executed(answers=answers, provided=RunState(replacement=CHANGED))

    return Storing


@pytest.mark.parametrize("undeclared", ["", "advice", "replacement"])
def test_what_apply_and_rollback_store_must_be_declared_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undeclared: str
) -> None:
    declared = [name for name in ("advice", "replacement") if name != undeclared]
    monkeypatch.setattr(vocabulary, "ACTIONS", {"storing": _make_storing(*declared)})
    plays = [Play(name="p", hosts="all", tasks=(Task(name="s", action="storing"),))]
    with scene(tmp_path) as made:
        runner = PlaybookRunner(made)
        if undeclared:
            with pytest.raises(TypeError, match=f"sets \\['{undeclared}'\\] without"):
                runner.run(assigned(made, plays))
        else:
            assert runner.run(assigned(made, plays)).exit_code
            assert made.state == RunState(advice=("applied",), replacement=CHANGED)


def _actions() -> list[type[Action[Any]]]:
    return [ACTIONS[name] for name in (*ACTIONS, *INTERNAL)]


@pytest.mark.parametrize("action", _actions(), ids=lambda action: action.name)
def test_an_action_declares_every_field_that_its_module_reads(action: type[Action[Any]]) -> None:
    tree = ast.parse(Path(inspect.getfile(action)).read_text())
    read = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "run"
        and node.attr in FIELDS
    }
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    read |= {field for helper, field in HELPERS.items() if helper in called}
    declared = {*action.list_requirements(nodes=2), *action.provides, *action.updates}
    assert read <= declared


def test_only_the_engine_stores_state() -> None:
    storing = {
        path
        for path, tree in parse_package().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "provide"
    }
    assert storing == {"playbook/attempt.py"}


@pytest.mark.parametrize("action", _actions(), ids=lambda action: action.name)
def test_an_action_says_whether_it_inspects_hosts_and_whether_it_can_be_undone(
    action: type[Action[Any]],
) -> None:
    assert action.inspects == (action.inspect is not Action.inspect)
    assert action.undoes == (
        action.undo is not Action.undo or action.roll_back is not Action.roll_back
    )


@pytest.mark.parametrize("nodes", [1, 2])
def test_the_play_of_cluster_render_is_in_order_and_writes_nothing(nodes: int) -> None:
    play = build_render_play(nodes)
    assert find_order_problems([play], nodes=nodes) == []
    for task in play.tasks:
        assert isinstance(task, Task)
        action = ACTIONS[task.action]
        assert action.apply is Action.apply
        assert action.apply_all is Action.apply_all
