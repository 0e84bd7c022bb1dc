"""One attempt of an action on its hosts: inspect, plan, apply, with a barrier after each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from sparkfleet.actions.action import Action, Executed, Plan, Planned
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import RunState
from sparkfleet.errors import (
    HostError,
    InputError,
    LockHeldError,
    SparkfleetError,
    UnreachableError,
)
from sparkfleet.model import Host, Outcome, Status
from sparkfleet.playbook.syntax import Task
from sparkfleet.remote.pool import Answers

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskExecution:
    """An action of a task on some hosts; with `fatal`, one failure stops all of them."""

    task: Task
    action: Action[Any]
    hosts: tuple[Host, ...]
    fatal: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedTask(TaskExecution):
    """The execution of a task whose `plans` were applied, at least in part, and can be undone."""

    plans: Mapping[str, Plan]


PlansAndErrors = tuple[Mapping[str, Plan], Mapping[str, SparkfleetError]]


def attempt_once(
    run: RunContext, execution: TaskExecution, applied: list[AppliedTask]
) -> Mapping[str, Outcome]:
    """Run `execution` once and return the outcome of each host; adds to `applied` what it starts.

    Raises LockHeldError, and InputError for a mistake in a file: both stop the run.
    """
    run.now = run.clock()
    try:
        plans, errors = _plan_execution(run, execution)
        if not (errors and execution.fatal) and not run.options.check:
            plans, more = _apply_plans(run, execution, plans, applied)
            errors = {**errors, **more}
        if not (errors and execution.fatal):
            _store_state(run, execution.action, execution.action.settle(run, plans))
            _register_variables(run, execution.task, plans)
    except HostError as error:
        plans = {}
        errors = {error.host: error}
    outcomes = {name: _build_outcome(run, name, plan) for name, plan in plans.items()}
    outcomes |= {name: _failed_outcome(name, error) for name, error in errors.items()}
    return {
        host.name: outcomes.get(host.name) or Outcome(host=host.name, status=Status.OK)
        for host in execution.hosts
    }


def _build_outcome(run: RunContext, name: str, plan: Plan) -> Outcome:
    """Return the outcome of a plan; under --check, work that changes nothing was skipped."""
    outcome = plan.outcome(name)
    if run.options.check and plan.needs_apply and outcome.status is Status.OK:
        message = outcome.message or "not run in check mode"
        return replace(outcome, status=Status.SKIPPED, message=message)
    return outcome


def _plan_execution(run: RunContext, execution: TaskExecution) -> PlansAndErrors:
    answers = execution.action.inspect_all(run, execution.hosts)
    if answers.errors and (execution.fatal or not answers.values):
        return {}, answers.errors
    planned = execution.action.plan(run, answers.values)
    if not isinstance(planned, Planned):
        return planned, answers.errors
    _store_state(run, execution.action, planned.provided)
    for note in planned.notes:
        run.report(note)
    run.summary += planned.summary
    return planned.plans, answers.errors


def store_provided(
    run: RunContext, action: Action[Any], result: Answers[T] | Executed[T]
) -> Answers[T]:
    """Store the state that a step of `action` provides, and return the answers of the hosts."""
    if not isinstance(result, Executed):
        return result
    _store_state(run, action, result.provided)
    return result.answers


def _store_state(run: RunContext, action: Action[Any], update: RunState) -> None:
    undeclared = update.names() - {*action.provides, *action.updates}
    if undeclared:
        raise TypeError(f"{action.name} sets {sorted(undeclared)} without declaring it")
    is_first = any(name in update.names() for name in run.state.missing(action.provides))
    run.provide(update, outdated=action.outdates if is_first else ())


def _apply_plans(
    run: RunContext, execution: TaskExecution, plans: Mapping[str, Plan], applied: list[AppliedTask]
) -> PlansAndErrors:
    if any(plan.outcome("").status is Status.FAILED for plan in plans.values()):
        return plans, {}
    action = execution.action
    busy = tuple(h for h in execution.hosts if h.name in plans and plans[h.name].needs_apply)
    if not busy:
        return plans, {}
    applied.append(AppliedTask(task=execution.task, action=action, hosts=busy, plans=plans))
    answers = store_provided(run, action, action.apply_all(run, busy, plans))
    return {**plans, **answers.values}, answers.errors


def _register_variables(run: RunContext, task: Task, plans: Mapping[str, Plan]) -> None:
    for name, plan in plans.items():
        for host in run.hosts if task.run_once else ():
            run.variables[host.name].learn(plan.variables)
        run.variables[name].learn(plan.variables)


def _failed_outcome(name: str, error: SparkfleetError) -> Outcome:
    if isinstance(error, LockHeldError | InputError):
        raise error
    status = Status.UNREACHABLE if isinstance(error, UnreachableError) else Status.FAILED
    return Outcome(host=name, status=status, message=error.message, hint=error.hint)
