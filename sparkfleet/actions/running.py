"""What `command` and `shell` have in common: a program of the user's on every host."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from sparkfleet.actions.action import HostAction, Plan, arg
from sparkfleet.actions.becoming import HELP, become
from sparkfleet.actions.scene import Scene
from sparkfleet.commands import quote, shell_script
from sparkfleet.errors import CommandError
from sparkfleet.model import Change, Host
from sparkfleet.remote.channel import Result
from sparkfleet.remote.link import TAIL_LINES, Link
from sparkfleet.remote.pool import Answers
from sparkfleet.remote.sudo import own_words, run

NO_START, NOT_NEEDED = 119, 118  # what command.sh says with its exit status
TIMED_OUT = 124  # timeout(1)
MARGIN = 15.0  # s beyond the command's own limit: it gets 5 of them to end
NO_LIMIT = 1e8  # s
NOT_RUN = Result(returncode=0, stdout=b"", stderr="")  # what `register` keeps, as in Ansible


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningArgs:
    """What `command` and `shell` have in common."""

    chdir: str = arg("folder to run it in; the home folder by default", default="")
    creates: str = arg("a path, or a pattern; where it exists the command is not run", default="")
    removes: str = arg("a path, or a pattern; where none exists it is not run", default="")
    timeout: int | None = arg(
        "seconds it may take; then it is ended, and the task fails", default=None
    )
    become: bool | None = arg(HELP, default=None)


R = TypeVar("R", bound=RunningArgs)


class Running(HostAction[R]):
    """What runs a program. It ends with the run, whatever cuts that short; it is never undone."""

    @classmethod
    def faults(cls, args: R) -> Iterator[str]:
        """Want a time limit."""
        if args.timeout is not None and args.timeout < 1:
            yield f"timeout is a number of seconds from 1, not {args.timeout}"

    @abstractmethod
    def words(self, args: R) -> tuple[str, ...]:
        """Return the program and its arguments."""

    def look(self, scene: Scene, hosts: tuple[Host, ...]) -> Answers[Result | None]:
        """Under --check, see whether `creates` and `removes` let it run."""
        known: dict[str, Result | None] = dict.fromkeys(host.name for host in hosts)
        args = self.args
        asked = [h for h in hosts if args[h.name].creates or args[h.name].removes]
        if not scene.options.check or not asked:
            return Answers(values=known, errors={})
        answers = scene.pool.map(lambda link: self._run(scene, link, 0), asked)
        return Answers(values={**known, **answers.values}, errors=answers.errors)

    def decide(self, scene: Scene, host: str, seen: Result | None) -> Plan:
        """Run it, but never under --check."""
        if not scene.options.check:
            return Plan(work=True)
        data = self._data(host, NOT_RUN)
        if seen is None:
            return Plan(skip=True, message="not run in check mode", data=data)
        if reason := own_words(seen, NOT_NEEDED):
            return Plan(message=f"not run: {reason}", data=data)
        if reason := own_words(seen, NO_START):
            return Plan(message=f"would run; now {reason}", skip=True, data=data)
        return Plan(changes=(self._change(host),), message="would run", data=data)

    def apply(self, scene: Scene, link: Link, plan: Plan) -> Plan:
        """Run it, and judge by its exit status."""
        host, timeout = link.host.name, self.args[link.host.name].timeout
        result = self._run(scene, link, timeout)
        if reason := own_words(result, NOT_NEEDED):
            return Plan(message=f"not run: {reason}", data=self._data(host, NOT_RUN))
        if reason := own_words(result, NO_START):
            raise CommandError(reason, host=host)
        failed = result.returncode != 0
        return Plan(
            changes=(self._change(host),),
            failed=failed,
            message=_complaint(result, timeout) if failed else "",
            data=self._data(host, result),
        )

    def _run(self, scene: Scene, link: Link, timeout: int | None) -> Result:
        args = self.args[link.host.name]
        limit = "" if timeout is None else str(timeout)
        words = (limit, args.chdir, args.creates, args.removes, *self.words(args))
        sudo = become(scene, link.host.name, asked=args.become)
        patience = NO_LIMIT if timeout is None else timeout + MARGIN
        return run(link, shell_script("command", *words), sudo, timeout=patience, hold=True)

    def _change(self, host: str) -> Change:
        return Change(summary=f"run {quote(self.words(self.args[host]))}")

    def _data(self, host: str, result: Result) -> Mapping[str, Any]:
        stdout, stderr = result.text.rstrip("\r\n"), result.stderr.rstrip("\r\n")
        return {
            "cmd": list(self.words(self.args[host])),
            "rc": result.returncode,
            "stdout": stdout,
            "stdout_lines": stdout.splitlines(),
            "stderr": stderr,
            "stderr_lines": stderr.splitlines(),
        }


def _complaint(result: Result, timeout: int | None) -> str:
    lines = (result.stderr.strip() or result.text.strip()).splitlines()[-TAIL_LINES:]
    status = f"exit status {result.returncode}"
    if timeout is not None and result.returncode == TIMED_OUT:
        status += f", which timeout(1) gives after {timeout} s"
    return "\n".join([status, *lines])
