"""The state of a run has typed fields, and only the engine changes it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
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
from tests.action_source import (
    find_reached_code,
    list_actions,
    list_methods,
    list_optional_reads,
    list_required_reads,
)
from tests.scenes import Recorder, assigned, scene
from tests.source import parse_package

CHANGED = Replacement()


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


@pytest.mark.parametrize("action", list_actions(), ids=lambda action: action.name)
def test_an_action_declares_every_field_that_it_reads_and_no_other(
    action: type[Action[Any]],
) -> None:
    code = find_reached_code(action, list_methods(action))
    read = list_optional_reads(code) | list_required_reads(code)
    required = {*action.list_requirements(nodes=2)}
    assert required - read <= {"locks"}  # held for the hosts, and not read
    assert set(action.uses) == read - required - {*action.provides, *action.updates}


def test_reads_are_found_in_helpers_of_other_modules_too() -> None:
    image = list_optional_reads(find_reached_code(ACTIONS["image"], ["plan"]))
    assert image == {"cable_gbps", "fabric"}  # in image_contents.py
    stage = find_reached_code(ACTIONS["stage_weights"], ["plan"])
    assert list_required_reads(stage) == {"facts"}  # in links_gate.py


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


@pytest.mark.parametrize("action", list_actions(), ids=lambda action: action.name)
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
