"""One attempt of an action on its hosts: look, plan, apply, with a barrier after each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkfleet.actions.action import Action, Plan
from sparkfleet.actions.scene import Scene
from sparkfleet.errors import (
    HostError,
    InputError,
    LockHeldError,
    SparkfleetError,
    UnreachableError,
)
from sparkfleet.model import Host, Outcome, Status
from sparkfleet.playbook.syntax import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """An action of a task, on some hosts; with `fatal` none goes on where one has failed."""

    task: Task
    action: Action[Any]
    hosts: tuple[Host, ...]
    fatal: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied(Turn):
    """What was begun with `plans`, and can be taken back."""

    plans: Mapping[str, Plan]


Planned = tuple[Mapping[str, Plan], Mapping[str, SparkfleetError]]


def attempt_once(scene: Scene, turn: Turn, applied: list[Applied]) -> Mapping[str, Outcome]:
    """Take `turn` once and return the outcome of each host; what is begun is noted in `applied`.

    Raises LockHeldError, and InputError for what is written wrongly: both end the run.
    """
    try:
        plans, errors = _planned(scene, turn)
        if not (errors and turn.fatal) and not scene.options.check:
            plans, more = _carried_out(scene, turn, plans, applied)
            errors = {**errors, **more}
        if not (errors and turn.fatal):
            turn.action.settle(scene, plans)
            _learn(scene, turn.task, plans)
    except HostError as error:
        plans, errors = {}, {error.host: error}
    outcomes = {name: plan.outcome(name) for name, plan in plans.items()}
    outcomes |= {name: _failed(name, error) for name, error in errors.items()}
    return {
        host.name: outcomes.get(host.name) or Outcome(host=host.name, status=Status.OK)
        for host in turn.hosts
    }


def _planned(scene: Scene, turn: Turn) -> Planned:
    answers = turn.action.look(scene, turn.hosts)
    if answers.errors and (turn.fatal or not answers.values):
        return {}, answers.errors
    return turn.action.plan(scene, answers.values), answers.errors


def _carried_out(
    scene: Scene, turn: Turn, plans: Mapping[str, Plan], applied: list[Applied]
) -> Planned:
    if any(plan.outcome("").status is Status.FAILED for plan in plans.values()):
        return plans, {}
    action = turn.action
    busy = tuple(h for h in turn.hosts if h.name in plans and plans[h.name].needs_apply)
    if not busy:
        return plans, {}
    applied.append(Applied(task=turn.task, action=action, hosts=busy, plans=plans))
    answers = action.carry_out(scene, busy, plans)
    return {**plans, **answers.values}, answers.errors


def _learn(scene: Scene, task: Task, plans: Mapping[str, Plan]) -> None:
    for name, plan in plans.items():
        for host in scene.hosts if task.run_once else ():
            scene.variables[host.name].learn(plan.variables)
        scene.variables[name].learn(plan.variables)


def _failed(name: str, error: SparkfleetError) -> Outcome:
    if isinstance(error, LockHeldError | InputError):
        raise error
    status = Status.UNREACHABLE if isinstance(error, UnreachableError) else Status.FAILED
    return Outcome(host=name, status=status, message=error.message, hint=error.hint)
