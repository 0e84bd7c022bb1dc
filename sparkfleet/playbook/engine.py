"""Runs plays: one task after the other, each on all hosts at once, with a barrier after each.

One failed or unreachable host stops the run everywhere, since half a tensor-parallel group cannot
serve. Then `rescue` and `always` run, and a failure that is not rescued is rolled back: first the
logs of every host are saved, then each applied action is undone, newest first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sparkfleet.actions.run_context import RunContext
from sparkfleet.command_name import name_command
from sparkfleet.errors import Interrupted, UnreachableError, combine_exit_codes
from sparkfleet.model import Host, Status
from sparkfleet.playbook.attempt import AppliedTask, store_provided
from sparkfleet.playbook.initial_variables import build_variables
from sparkfleet.playbook.syntax import AssignedPlay, Block, TaskOrBlock
from sparkfleet.playbook.task_runner import TaskFailed, TaskRunner
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import Answers
from sparkfleet.report import events


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """Result of a run: outcomes counted by host, and the exit code that follows from them.

    `lost` are the hosts that did not answer at the end; `phases` are the seconds of each task.
    """

    recap: Mapping[str, Mapping[Status, int]]
    exit_code: int
    lost: frozenset[str] = frozenset()
    phases: tuple[tuple[str, float], ...] = ()

    @property
    def answered(self) -> list[str]:
        """The hosts with an outcome other than unreachable, by name."""
        return [
            name
            for name, counts in self.recap.items()
            if any(count for status, count in counts.items() if status is not Status.UNREACHABLE)
        ]


class PlaybookRunner:
    """Runs the plays of one run."""

    def __init__(self, run: RunContext) -> None:
        self._run_context = run
        self._runner = TaskRunner(run)

    def run(self, plays: Sequence[AssignedPlay]) -> RunResult:
        """Run all plays; raises only for mistakes in files, never for failures of hosts."""
        interrupted = False
        self._run_context.variables = build_variables(self._run_context, plays)
        try:
            for assigned in plays:
                self._play(assigned)
        except TaskFailed:
            self._roll_back()
        except KeyboardInterrupt:
            interrupted = True
            self._roll_back(interrupted=True)
        except BaseException:  # a signal too
            self._roll_back()  # also after a bug, a wrong playbook or a closed pipe
            raise
        return RunResult(
            recap=self._runner.counts,
            exit_code=Interrupted.exit_code if interrupted else self._exit_code(),
            lost=frozenset(self._runner.lost),
            phases=tuple(self._runner.phases),
        )

    def _exit_code(self) -> int:
        statuses = {status for counts in self._runner.counts.values() for status in +counts}
        return combine_exit_codes(
            failed=Status.FAILED in statuses, unreachable=Status.UNREACHABLE in statuses
        )

    def _play(self, assigned: AssignedPlay) -> None:
        run = self._run_context
        play = assigned.play
        run.hosts = assigned.hosts
        self._runner.fatal = play.fatal
        for host in assigned.hosts:
            run.variables[host.name].enter(play.vars)
        names = tuple(host.name for host in assigned.hosts)
        run.report(events.PlayStarted(name=play.name, hosts=names))
        self._steps(play.tasks)

    def _steps(self, steps: Sequence[TaskOrBlock]) -> None:
        for step in steps:
            if isinstance(step, Block):
                self._block(step)
            else:
                self._runner.run(step)

    def _block(self, block: Block) -> None:
        try:
            self._rescued(block)
        except KeyboardInterrupt:
            self._run_context.pool.abort()
            raise
        finally:
            self._steps(block.always)

    def _rescued(self, block: Block) -> None:
        """Run a block and its `rescue`; an unreachable host cannot be rescued."""
        try:
            self._steps(block.block)
        except TaskFailed as failure:
            if not block.rescue:
                raise
            self._runner.register_failure(failure)
            self._steps(block.rescue)
            if failure.lost:
                raise
            self._runner.count_rescued(failure)

    def _roll_back(self, *, interrupted: bool = False) -> None:
        """Undo the run; a second Ctrl-C, however soon, leaves the rest to the next run."""
        try:
            if interrupted:
                note = events.Note(text="interrupted; rolling back", level="error")
                self._run_context.report(note)
                self._run_context.pool.abort()
            self._undo()
        except KeyboardInterrupt:
            self._run_context.report(
                events.Note(text=_format_interrupted_rollback(), level="error")
            )
            self._run_context.pool.abort()
            raise

    def _undo(self) -> None:
        """Save every log, then undo what was applied, newest first; continue after errors."""
        run = self._run_context
        self._regain_lost()
        for applied in reversed(self._runner.applied):
            answers = run.pool.map(self._salvage(applied), self._left(applied))
            self._note(applied, "saving the logs", answers)
        for applied in reversed(self._runner.applied):
            result = applied.action.roll_back(run, self._left(applied), applied.plans)
            answers = store_provided(run, applied.action, result)
            self._note(applied, "undo", answers)
            self._report_rolled_back(applied, answers)

    def _regain_lost(self) -> None:
        """Connect again to lost hosts where something was applied: a link may be back by now."""
        begun = {host.name: host for applied in self._runner.applied for host in applied.hosts}
        lost = [host for name, host in begun.items() if name in self._runner.lost]
        self._runner.lost -= set(self._run_context.pool.reconnect_lost(lost).values)

    def _left(self, applied: AppliedTask) -> tuple[Host, ...]:
        return tuple(host for host in applied.hosts if host.name not in self._runner.lost)

    def _salvage(self, applied: AppliedTask) -> Callable[[Connection], None]:
        return lambda connection: applied.action.salvage(self._run_context, connection)

    def _report_rolled_back(self, applied: AppliedTask, answers: Answers[None]) -> None:
        """Report a task that changed something and was undone, one line a task."""
        if applied.action.undoes and answers.values:
            text = f"rolled back on {', '.join(answers.values)}: {applied.task.name}"
            self._run_context.report(events.Note(text=text))

    def _note(self, applied: AppliedTask, step: str, answers: Answers[None]) -> None:
        for name, error in answers.errors.items():
            if isinstance(error, UnreachableError):
                self._runner.lost.add(name)
            reason = "(no_log)" if applied.task.no_log else error.message
            text = f"{step} of {applied.action.name} failed on {name}: {reason}"
            self._run_context.report(events.Note(text=text, level="error"))


def _format_interrupted_rollback() -> str:
    status = name_command("cluster.status")
    up = name_command("cluster.up")
    return f"rollback interrupted; see {status}. The next {up} completes it"
