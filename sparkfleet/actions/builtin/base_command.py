"""Base of `command` and `shell`, which run a program on every host."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from sparkfleet.actions.action import HostAction, Plan, arg
from sparkfleet.actions.builtin.become import HELP, resolve_become
from sparkfleet.actions.run_context import RunContext
from sparkfleet.commands import build_shell_command, quote
from sparkfleet.errors import CommandError
from sparkfleet.model import Change, Host
from sparkfleet.remote.channel import Result
from sparkfleet.remote.connection import TAIL_LINES, Connection
from sparkfleet.remote.pool import Answers
from sparkfleet.remote.sudo import parse_script_message, run_with_sudo

NO_START = 119  # exit status of command.sh
NOT_NEEDED = 118
STOP_GRACE = 5  # seconds between SIGTERM and SIGKILL
TIMED_OUT = 124  # timeout(1)
MARGIN = 15.0  # seconds beyond the command's own limit; 5 of them are for it to stop
NO_LIMIT = 1e8  # seconds
NOT_RUN = Result(returncode=0, stdout=b"", stderr="")  # the result for `register`, as in Ansible


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseCommandArgs:
    """The arguments that `command` and `shell` share."""

    chdir: str = arg("folder to run it in; the home folder by default", default="")
    creates: str = arg("a path or pattern; if it exists, the command is skipped", default="")
    removes: str = arg("a path or pattern; if none exists, the command is skipped", default="")
    timeout: int | None = arg(
        "time limit in seconds, after which it is stopped and the task fails", default=None
    )
    become: bool | None = arg(HELP, default=None)


R = TypeVar("R", bound=BaseCommandArgs)


class BaseCommand(HostAction[R]):
    """Runs a program, which stops when the run does; it is never undone."""

    @classmethod
    def validate_args(cls, args: R) -> Iterator[str]:
        """Require a valid time limit."""
        if args.timeout is not None and args.timeout < 1:
            yield f"timeout must be >= 1 second (got {args.timeout})"

    @abstractmethod
    def build_argv(self, args: R) -> tuple[str, ...]:
        """Return the program and its arguments."""

    def inspect_all(
        self, run_context: RunContext, hosts: tuple[Host, ...]
    ) -> Answers[Result | None]:
        """Under --check, find out whether `creates` and `removes` let it run."""
        results: dict[str, Result | None] = dict.fromkeys(host.name for host in hosts)
        args = self.args
        guarded = [h for h in hosts if args[h.name].creates or args[h.name].removes]
        if not run_context.options.check or not guarded:
            return Answers(values=results, errors={})
        answers = run_context.pool.map(
            lambda connection: self._run(run_context, connection, 0), guarded
        )
        return Answers(values={**results, **answers.values}, errors=answers.errors)

    def decide(self, run_context: RunContext, host: str, inspected: Result | None) -> Plan:
        """Run it, but never under --check."""
        if not run_context.options.check:
            return Plan(work=True)
        data = self._data(host, NOT_RUN)
        if inspected is None:
            return Plan(skip=True, message="not run in check mode", data=data)
        if reason := parse_script_message(inspected, NOT_NEEDED):
            return Plan(message=f"not run: {reason}", data=data)
        if reason := parse_script_message(inspected, NO_START):
            return Plan(message=f"would run, but at present {reason}", skip=True, data=data)
        return Plan(changes=(self._change(host),), message="would run", data=data)

    def apply(self, run_context: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Run it; an exit status other than 0 is a failure."""
        host = connection.host.name
        timeout = self.args[host].timeout
        result = self._run(run_context, connection, timeout)
        if reason := parse_script_message(result, NOT_NEEDED):
            return Plan(message=f"not run: {reason}", data=self._data(host, NOT_RUN))
        if reason := parse_script_message(result, NO_START):
            raise CommandError(reason, host=host)
        failed = result.returncode != 0
        return Plan(
            changes=(self._change(host),),
            failed=failed,
            message=_format_command_failure(result, timeout) if failed else "",
            data=self._data(host, result),
        )

    def _run(self, run_context: RunContext, connection: Connection, timeout: int | None) -> Result:
        args = self.args[connection.host.name]
        limit = "" if timeout is None else str(timeout)
        options = (str(STOP_GRACE), limit, args.chdir, args.creates, args.removes)
        sudo = resolve_become(run_context, connection.host.name, requested=args.become)
        patience = NO_LIMIT if timeout is None else timeout + MARGIN
        return run_with_sudo(
            connection,
            build_shell_command("transport/command", *options, *self.build_argv(args)),
            sudo,
            timeout=patience,
            hold=True,
        )

    def _change(self, host: str) -> Change:
        return Change(summary=f"run {quote(self.build_argv(self.args[host]))}")

    def _data(self, host: str, result: Result) -> Mapping[str, Any]:
        stdout = result.text.rstrip("\r\n")
        stderr = result.stderr.rstrip("\r\n")
        return {
            "cmd": list(self.build_argv(self.args[host])),
            "rc": result.returncode,
            "stdout": stdout,
            "stdout_lines": stdout.splitlines(),
            "stderr": stderr,
            "stderr_lines": stderr.splitlines(),
        }


def _format_command_failure(result: Result, timeout: int | None) -> str:
    lines = (result.stderr.strip() or result.text.strip()).splitlines()[-TAIL_LINES:]
    status = f"exit status {result.returncode}"
    if timeout is not None and result.returncode == TIMED_OUT:
        status += f" (timeout after {timeout} s)"
    return "\n".join([status, *lines])
