"""Runs one task on its hosts: conditions, attempts, registered results and reports."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from sparkfleet.actions.action import Action
from sparkfleet.actions.run_context import RunContext
from sparkfleet.errors import InputError, PlaybookError
from sparkfleet.model import Host, Outcome, Status
from sparkfleet.playbook import vocabulary
from sparkfleet.playbook.attempt import AppliedTask, TaskExecution, attempt_once
from sparkfleet.playbook.syntax import Task
from sparkfleet.playbook.task_order import explain_missing_state
from sparkfleet.playbook.vocabulary import build_action, runs_once, works_on_cluster
from sparkfleet.report import events
from sparkfleet.report.plurals import format_plural
from sparkfleet.templating import render_value

BAD = (Status.FAILED, Status.UNREACHABLE)
CENSORED = "(no_log)"


class TaskFailed(Exception):  # noqa: N818 - a signal between engine functions, never shown
    """A task failed on some host; the play stops."""

    def __init__(self, task: Task, outcomes: Mapping[str, Outcome]) -> None:
        super().__init__()
        self.task = task
        self.outcomes = outcomes

    @property
    def lost(self) -> bool:
        """Whether a host was unreachable, which `rescue` cannot repair."""
        return any(outcome.status is Status.UNREACHABLE for outcome in self.outcomes.values())


class TaskRunner:
    """Runs tasks, and keeps the run's records: counts by host, lost hosts, applied actions."""

    def __init__(self, run: RunContext) -> None:
        self._run_context = run
        self.counts: dict[str, Counter[Status]] = {}
        self.lost: set[str] = set()
        self.excluded: set[str] = set()  # failed hosts that a play continues without
        self.fatal = True
        self.phases: list[tuple[str, float]] = []
        self.applied: list[AppliedTask] = []
        self._skipped_tasks: list[Task] = []

    def run(self, task: Task) -> None:
        """Run `task`; raises TaskFailed, and PlaybookError for a mistake in the playbook."""
        began = time.monotonic()
        try:
            self._run(task)
        finally:
            self.phases.append((task.name, time.monotonic() - began))

    def _run(self, task: Task) -> None:
        with _place_errors(task):
            concerned, action = self._concerned(task)
            names = tuple(host.name for host in concerned)
            title = self._title(task)
            self._run_context.report(
                events.TaskStarted(name=title, action=task.action, hosts=names)
            )
            outcomes: Mapping[str, Outcome] = {}
            hosts = self._chosen(task, concerned)
            if hosts:
                self._check_requirements(task)
                action = action or build_action(task, self._variables(hosts))
                execution = TaskExecution(task=task, action=action, hosts=hosts, fatal=self.fatal)
                outcomes = self._attempts(execution)
        if not hosts:
            self._skipped_tasks.append(task)
        for host in concerned:
            self._end(task, outcomes.get(host.name) or self._skipped(task, host))
        bad = {name for name, outcome in outcomes.items() if outcome.status in BAD}
        if bad and (self.fatal or bad == set(outcomes)):
            raise TaskFailed(task, outcomes)
        self.excluded |= bad

    def register_failure(self, failure: TaskFailed) -> None:
        """Give `rescue` the failed task and its result, under Ansible's names."""
        for name, outcome in failure.outcomes.items():
            result = {} if failure.task.no_log else _build_result(outcome, 1)
            failed_task = {
                "ansible_failed_task": {"name": failure.task.name, "action": failure.task.action}
            }
            if outcome.status is Status.FAILED:
                self._run_context.variables[name].learn(
                    {**failed_task, "ansible_failed_result": result}
                )

    def count_rescued(self, failure: TaskFailed) -> None:
        """Count a failure as rescued."""
        for name, outcome in failure.outcomes.items():
            if outcome.status is Status.FAILED:
                self.counts[name][Status.FAILED] -= 1
                self.counts[name][Status.RESCUED] += 1

    def _check_requirements(self, task: Task) -> None:
        """Raise PlaybookError if a condition or a failure has skipped what `task` needs."""
        run = self._run_context
        required = vocabulary.ACTIONS[task.action].list_requirements(nodes=run.options.nodes)
        if missing := run.state.missing(required):
            raise explain_missing_state(task, missing, self._skipped_tasks)

    def _title(self, task: Task) -> str:
        if task.no_log:
            return task.name
        try:
            return str(
                render_value(
                    task.name, self._run_context.variables[self._run_context.hosts[0].name]
                )
            )
        except InputError:
            return task.name

    def _concerned(self, task: Task) -> tuple[Sequence[Host], Action[Any] | None]:
        """Return the hosts of `task`, and its action if the action chooses them."""
        run = self._run_context
        if works_on_cluster(task.action):
            action = build_action(task, self._variables(run.cluster.hosts[:1]))
            return self._reachable(action.hosts(run)), action
        concerned = self._reachable(run.hosts)
        alone = task.run_once or runs_once(task.action)
        return concerned[:1] if alone else concerned, None

    def _variables(self, hosts: Sequence[Host]) -> dict[str, Mapping[str, Any]]:
        return {host.name: self._run_context.variables[host.name] for host in hosts}

    def _reachable(self, hosts: Sequence[Host]) -> list[Host]:
        return [host for host in hosts if host.name not in self.lost | self.excluded]

    def _chosen(self, task: Task, hosts: Sequence[Host]) -> tuple[Host, ...]:
        return tuple(
            host
            for host in hosts
            if all(
                condition.holds(self._run_context.variables[host.name]) for condition in task.when
            )
        )

    def _attempts(self, execution: TaskExecution) -> Mapping[str, Outcome]:
        task = execution.task
        pending = execution.hosts
        outcomes: dict[str, Outcome] = {}
        for attempt in range(1, task.retries + 2):
            if attempt > 1:
                time.sleep(task.delay)
            now = attempt_once(self._run_context, replace(execution, hosts=pending), self.applied)
            outcomes |= now
            self._register(task, now, attempt)
            pending = self._unsatisfied(task, pending, now)
            if not pending or any(outcome.status is Status.UNREACHABLE for outcome in now.values()):
                return outcomes
            if works_on_cluster(task.action):
                pending = execution.hosts
            self._report_retry(pending, task.retries + 1 - attempt)
        never = {host.name: _unsatisfied_outcome(task, outcomes[host.name]) for host in pending}
        self._register(task, never, attempt)
        return outcomes | never

    def _unsatisfied(
        self, task: Task, hosts: Sequence[Host], outcomes: Mapping[str, Outcome]
    ) -> tuple[Host, ...]:
        if self._run_context.options.check:
            return ()
        if not task.until:
            return tuple(host for host in hosts if outcomes[host.name].status in BAD)
        variables = self._run_context.variables
        return tuple(
            host
            for host in hosts
            if not all(condition.holds(variables[host.name]) for condition in task.until)
        )

    def _report_retry(self, hosts: Sequence[Host], left: int) -> None:
        text = f"condition not met; {left} {'retry' if left == 1 else 'retries'} left"
        for host in hosts if left else ():
            self._run_context.report(events.Progress(host=host.name, text=text))

    def _register(self, task: Task, outcomes: Mapping[str, Outcome], attempts: int) -> None:
        for name, outcome in outcomes.items() if task.register else ():
            result = {str(task.register): _build_result(outcome, attempts)}
            for host in self._run_context.hosts if task.run_once else ():
                self._run_context.variables[host.name].learn(result)
            self._run_context.variables[name].learn(result)

    def _skipped(self, task: Task, host: Host) -> Outcome:
        outcome = Outcome(host=host.name, status=Status.SKIPPED)
        self._register(task, {host.name: outcome}, 0)
        return outcome

    def _end(self, task: Task, outcome: Outcome) -> None:
        self.counts.setdefault(outcome.host, Counter())[outcome.status] += 1
        if outcome.status is Status.UNREACHABLE:
            self.lost.add(outcome.host)
        if task.no_log:
            outcome = Outcome(host=outcome.host, status=outcome.status, message=CENSORED)
        self._run_context.report(events.HostEnded(task=task.name, outcome=outcome))


@contextmanager
def _place_errors(task: Task) -> Iterator[None]:
    """Give an error of the playbook the place of `task`; hide its details if that has no_log."""
    try:
        yield
    except InputError as error:
        if task.no_log:
            message = f"the task {task.name!r} cannot be run; no_log hides the reason"
            hint = "to see it, run once without no_log"
            raise PlaybookError(message, where=task.where, hint=hint) from None
        if not isinstance(error, PlaybookError) or any(p.where for p in error.problems):
            raise
        raise PlaybookError(error.message, where=task.where, hint=error.hint) from error


def _unsatisfied_outcome(task: Task, outcome: Outcome) -> Outcome:
    """Return the outcome of a host on which `until` never became true."""
    if not task.until or outcome.status in BAD:
        return outcome
    conditions = " and ".join(condition.text for condition in task.until)
    message = f"still not true after {format_plural(task.retries + 1, 'attempt')}: {conditions}"
    return replace(outcome, status=Status.FAILED, message=message)


def _build_result(outcome: Outcome, attempts: int) -> dict[str, Any]:
    """Return the result for `register`."""
    return {
        "msg": outcome.message,
        **outcome.data,
        "changed": outcome.status is Status.CHANGED,
        "failed": outcome.status in BAD,
        "unreachable": outcome.status is Status.UNREACHABLE,
        "skipped": outcome.status is Status.SKIPPED,
        "attempts": attempts,
    }
