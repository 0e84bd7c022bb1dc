"""Runs plays: one task after the other, each on all hosts at once, with a barrier after each.

One failed or unreachable host stops the play everywhere, since half a tensor-parallel group serves
nobody. Then `rescue` and `always` run, and what is still failed is undone: first the logs of every
host are saved, then each applied action is taken back, newest first.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sparkfleet.actions.action import Action, Plan
from sparkfleet.actions.scene import Scene
from sparkfleet.errors import HostError, LockHeldError, SparkfleetError, UnreachableError
from sparkfleet.model import Host, Outcome, Status
from sparkfleet.playbook.expressions import holds
from sparkfleet.playbook.syntax import Block, Play, Step, Task
from sparkfleet.playbook.vocabulary import build
from sparkfleet.report import events

BAD = (Status.FAILED, Status.UNREACHABLE)


class TaskFailed(Exception):  # noqa: N818 - a signal between engine functions, never shown
    """A task failed on some host; the play stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended: outcomes counted by host, and the exit code they add up to."""

    recap: Mapping[str, Mapping[Status, int]]
    exit_code: int


class Engine:
    """Runs plays over one scene; made for one run and thrown away after it."""

    def __init__(self, scene: Scene, variables: Mapping[str, Mapping[str, Any]]) -> None:
        self._scene = scene
        self._variables = {name: dict(values) for name, values in variables.items()}
        self._counts = {host.name: Counter[Status]() for host in scene.cluster.hosts}
        self._applied: list[tuple[Action[Any], tuple[Host, ...]]] = []
        self._lost: set[str] = set()

    def run(self, plays: Sequence[Play]) -> Ended:
        """Run all plays; never raises for what a host did, only for what was written wrongly."""
        interrupted = False
        try:
            for play in plays:
                names = tuple(host.name for host in self._scene.cluster.hosts)
                self._scene.tell(events.PlayStarted(name=play.name, hosts=names))
                self._steps(play.tasks)
        except TaskFailed:
            self._take_back()
        except KeyboardInterrupt:
            interrupted = True
            self._scene.tell(events.Note(text="interrupted; taking back this run", level="error"))
            self._scene.pool.abort()
            self._take_back()
        except Exception:
            self._take_back()  # a bug, or a playbook that is wrong: nothing of this run may stay
            raise
        return Ended(recap=self._counts, exit_code=130 if interrupted else self._exit_code())

    def _exit_code(self) -> int:
        seen = {status for counts in self._counts.values() for status in counts}
        failed, lost = Status.FAILED in seen, Status.UNREACHABLE in seen
        return 6 if failed and lost else 4 if lost else 2 if failed else 0

    def _steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if isinstance(step, Block):
                self._block(step)
            else:
                self._task(step)

    def _block(self, block: Block) -> None:
        hosts = self._hosts(block.when, self._scene.cluster.hosts)
        if not hosts:
            return
        try:
            self._steps(block.block)
        except TaskFailed:
            if not block.rescue:
                raise
            self._steps(block.rescue)
        except KeyboardInterrupt:
            self._scene.pool.abort()
            raise
        finally:
            self._steps(block.always)

    def _hosts(self, when: Sequence[str], hosts: Sequence[Host]) -> tuple[Host, ...]:
        return tuple(
            host
            for host in hosts
            if host.name not in self._lost
            and all(holds(text, self._variables[host.name]) for text in when)
        )

    def _task(self, task: Task) -> None:
        action = build(task, self._variables[self._scene.cluster.head.name])
        concerned = action.hosts(self._scene)
        hosts = self._hosts(task.when, concerned)
        self._scene.tell(events.TaskStarted(name=task.name, action=task.action))
        skipped = [host for host in concerned if host not in hosts and host.name not in self._lost]
        for host in skipped:
            self._end(task, Outcome(host=host.name, status=Status.SKIPPED))
        outcomes = self._attempts(task, action, hosts)
        for host in hosts:
            self._end(task, outcomes[host.name])
        if any(outcome.status in BAD for outcome in outcomes.values()):
            raise TaskFailed

    def _attempts(
        self, task: Task, action: Action[Any], hosts: tuple[Host, ...]
    ) -> Mapping[str, Outcome]:
        for attempt in range(task.retries + 1):
            outcomes = self._once(action, hosts)
            self._register(task, outcomes)
            failed = any(outcome.status in BAD for outcome in outcomes.values())
            if not failed and self._until(task, hosts):
                return outcomes
            if attempt < task.retries:
                time.sleep(task.delay)
        if task.until and not failed:
            return {
                name: replace(outcome, status=Status.FAILED, message=f"until: {task.until}: never")
                for name, outcome in outcomes.items()
            }
        return outcomes

    def _until(self, task: Task, hosts: Sequence[Host]) -> bool:
        return task.until is None or all(
            holds(task.until, self._variables[host.name]) for host in hosts
        )

    def _register(self, task: Task, outcomes: Mapping[str, Outcome]) -> None:
        if task.register is None:
            return
        for name, outcome in outcomes.items():
            self._variables[name][task.register] = {
                **outcome.data,
                "changed": outcome.status is Status.CHANGED,
                "failed": outcome.status in BAD,
                "skipped": outcome.status is Status.SKIPPED,
                "message": outcome.message,
            }

    def _once(self, action: Action[Any], hosts: tuple[Host, ...]) -> Mapping[str, Outcome]:
        if not hosts:
            return {}
        try:
            plans, errors = self._planned(action, hosts)
            if not errors and not self._scene.options.check:
                plans, errors = self._carried_out(action, hosts, plans)
            if not errors:
                action.settle(self._scene, plans)
        except HostError as error:
            plans, errors = {}, {error.host: error}
        outcomes = {name: plan.outcome(name) for name, plan in plans.items()}
        outcomes |= {name: self._error(name, error) for name, error in errors.items()}
        missing = Outcome(host="", status=Status.OK)
        return {h.name: outcomes.get(h.name) or replace(missing, host=h.name) for h in hosts}

    def _planned(
        self, action: Action[Any], hosts: tuple[Host, ...]
    ) -> tuple[Mapping[str, Plan], Mapping[str, SparkfleetError]]:
        answers = action.look(self._scene, hosts)
        if answers.errors:
            return {}, answers.errors
        return action.plan(self._scene, answers.values), {}

    def _carried_out(
        self, action: Action[Any], hosts: tuple[Host, ...], plans: Mapping[str, Plan]
    ) -> tuple[Mapping[str, Plan], Mapping[str, SparkfleetError]]:
        if any(verdict.refuses for plan in plans.values() for verdict in plan.verdicts):
            return plans, {}
        busy = tuple(h for h in hosts if h.name in plans and plans[h.name].needs_apply)
        if not busy:
            return plans, {}
        self._applied.append((action, busy))
        scene = self._scene
        answers = scene.pool.map(
            lambda link: action.apply(scene, link, plans[link.host.name]), busy
        )
        return {**plans, **answers.values}, answers.errors

    def _error(self, name: str, error: SparkfleetError) -> Outcome:
        if isinstance(error, LockHeldError):
            raise error
        status = Status.UNREACHABLE if isinstance(error, UnreachableError) else Status.FAILED
        return Outcome(host=name, status=status, message=error.message, hint=error.hint)

    def _end(self, task: Task, outcome: Outcome) -> None:
        self._counts[outcome.host][outcome.status] += 1
        if outcome.status is Status.UNREACHABLE:
            self._lost.add(outcome.host)
        shown = replace(outcome, message="(no_log)", changes=()) if task.no_log else outcome
        self._scene.tell(events.HostEnded(task=task.name, outcome=shown))

    def _take_back(self) -> None:
        """Save every log, then undo what was applied, newest first; go on past what fails."""
        for step in ("salvage", "undo"):
            for action, hosts in reversed(self._applied):
                reachable = [host for host in hosts if host.name not in self._lost]
                work = getattr(action, step)
                answers = self._scene.pool.map(
                    lambda link, work=work: work(self._scene, link), reachable
                )
                for name, error in answers.errors.items():
                    text = f"{step} of {action.name} failed on {name}: {error.message}"
                    self._scene.tell(events.Note(text=text, level="error"))
