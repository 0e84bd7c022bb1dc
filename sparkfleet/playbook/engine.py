"""Runs plays: one task after the other, each on all hosts at once, with a barrier after each.

One failed or unreachable host stops the run everywhere, since half a tensor-parallel group serves
nobody. Then `rescue` and `always` run, and what is still failed is undone: first the logs of every
host are saved, then each applied action is taken back, newest first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sparkfleet.actions.scene import Scene
from sparkfleet.errors import UnreachableError
from sparkfleet.model import Host, Status
from sparkfleet.playbook import context
from sparkfleet.playbook.attempt import Applied
from sparkfleet.playbook.syntax import Assigned, Block, Step
from sparkfleet.playbook.task_runner import TaskFailed, TaskRunner
from sparkfleet.remote.link import Link
from sparkfleet.remote.pool import Answers
from sparkfleet.report import events


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended: outcomes counted by host, and the exit code they add up to.

    `lost` are the hosts that did not answer at the end; `phases` are the seconds of each task.
    """

    recap: Mapping[str, Mapping[Status, int]]
    exit_code: int
    lost: frozenset[str] = frozenset()
    phases: tuple[tuple[str, float], ...] = ()


LEFT = "interrupted again; cluster.status tells what is left, the next cluster.up takes it back"


class Engine:
    """Runs plays over one scene; made for one run and thrown away after it."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._runner = TaskRunner(scene)

    def run(self, plays: Sequence[Assigned]) -> Ended:
        """Run all plays; never raises for what a host did, only for what was written wrongly."""
        interrupted = False
        self._scene.variables = context.variables(self._scene, plays)
        try:
            for assigned in plays:
                self._play(assigned)
        except TaskFailed:
            self._take_back()
        except KeyboardInterrupt:
            interrupted = True
            self._scene.tell(events.Note(text="interrupted; taking back this run", level="error"))
            self._scene.pool.abort()
            self._take_back()
        except BaseException:  # a signal too
            self._take_back()  # a bug, a wrong playbook, a closed pipe: nothing of it may stay
            raise
        return Ended(
            recap=self._runner.counts,
            exit_code=130 if interrupted else self._exit_code(),
            lost=frozenset(self._runner.lost),
            phases=tuple(self._runner.phases),
        )

    def _exit_code(self) -> int:
        seen = {status for counts in self._runner.counts.values() for status in +counts}
        failed, lost = Status.FAILED in seen, Status.UNREACHABLE in seen
        return 6 if failed and lost else 4 if lost else 2 if failed else 0

    def _play(self, assigned: Assigned) -> None:
        scene, play = self._scene, assigned.play
        scene.hosts = assigned.hosts
        self._runner.fatal = play.fatal
        for host in assigned.hosts:
            scene.variables[host.name].enter(play.vars)
        names = tuple(host.name for host in assigned.hosts)
        scene.tell(events.PlayStarted(name=play.name, hosts=names))
        self._steps(play.tasks)

    def _steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if isinstance(step, Block):
                self._block(step)
            else:
                self._runner.run(step)

    def _block(self, block: Block) -> None:
        try:
            self._rescued(block)
        except KeyboardInterrupt:
            self._scene.pool.abort()
            raise
        finally:
            self._steps(block.always)

    def _rescued(self, block: Block) -> None:
        """Run a block and its `rescue`; a lost host stays lost, whatever was done about it."""
        try:
            self._steps(block.block)
        except TaskFailed as failure:
            if not block.rescue:
                raise
            self._runner.tell_failure(failure)
            self._steps(block.rescue)
            if failure.lost:
                raise
            self._runner.forgive(failure)

    def _take_back(self) -> None:
        """Undo the run; a second Ctrl-C leaves the rest as it is, for the next run to find."""
        try:
            self._undo()
        except KeyboardInterrupt:
            self._scene.tell(events.Note(text=LEFT, level="error"))
            self._scene.pool.abort()
            raise

    def _undo(self) -> None:
        """Save every log, then take back what was applied, newest first; go on past what fails."""
        for one in reversed(self._runner.applied):
            self._note(one, "salvage", self._scene.pool.map(self._salvage(one), self._left(one)))
        for one in reversed(self._runner.applied):
            self._note(one, "undo", one.action.take_back(self._scene, self._left(one), one.plans))

    def _left(self, applied: Applied) -> tuple[Host, ...]:
        return tuple(host for host in applied.hosts if host.name not in self._runner.lost)

    def _salvage(self, applied: Applied) -> Callable[[Link], None]:
        return lambda link: applied.action.salvage(self._scene, link)

    def _note(self, applied: Applied, step: str, answers: Answers[None]) -> None:
        for name, error in answers.errors.items():
            if isinstance(error, UnreachableError):
                self._runner.lost.add(name)
            reason = "(no_log)" if applied.task.no_log else error.message
            text = f"{step} of {applied.action.name} failed on {name}: {reason}"
            self._scene.tell(events.Note(text=text, level="error"))
