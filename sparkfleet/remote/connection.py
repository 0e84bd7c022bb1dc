"""A connection to a host: run a command, or start one and exchange data with it."""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import WeakSet

from sparkfleet.commands import Command, build_multiplexer_command, build_script_command
from sparkfleet.errors import CommandError, HostError, UnreachableError
from sparkfleet.remote.answers import parse_answer, parse_json_integer
from sparkfleet.remote.channel import Channel, ChannelTimeoutError, Result
from sparkfleet.remote.login_errors import (
    NOT_FOUND,
    build_lost_error,
    build_no_python_error,
    build_not_started_error,
    build_silent_error,
)
from sparkfleet.remote.multiplexer import MultiplexerClient, NotStartedError
from sparkfleet.values import parse_json

if TYPE_CHECKING:
    from sparkfleet.model import Host

T = TypeVar("T")
DEFAULT_TIMEOUT = 60.0  # seconds
SHELL_TIMEOUT = 5.0  # seconds for a login shell to say which it is, after it failed
SHOW_SHELL = Command(argv=("printenv", "SHELL"))  # words that every shell reads alike
START_TIMEOUT = 15.0  # seconds, as for a channel
REPEATS = 2  # times that work is done again after its connection broke
NO_HOME = "RuntimeError: Could not determine home directory."  # pathlib's, for ~user
TAIL_LINES = 5  # lines of stderr that a message quotes


class Connection(ABC):
    """A host that commands can be sent to. One thread at a time owns it."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.refused_password = ""  # by sudo there
        self._channels: WeakSet[Channel] = WeakSet()
        self._kept: list[Channel] = []
        self._aborted = False
        self._multiplexer: MultiplexerClient | None = None
        self._starting = threading.Lock()
        self._restorers: list[Callable[[Connection], None]] = []
        self._reopening = threading.Lock()
        self.reopened = 0  # times

    def open(self, command: Command, *, alone: bool = False) -> Channel:
        """Start `command`; its `stdin` is not sent yet. Raises UnreachableError, CommandError.

        On-host programs share one channel, unless `alone`, for one that gets much input.
        """
        shared = command.program and not alone
        channel = self._multiplexed(command) if shared else self._start_alone(command)
        self._channels.add(channel)
        if self._aborted:
            channel.close()
        return channel

    def _multiplexed(self, command: Command) -> Channel:
        with self._starting:
            if self._multiplexer is None or self._multiplexer.over:
                channel = self._start_alone(build_multiplexer_command())
                self._multiplexer = MultiplexerClient(channel)
        try:
            return self._multiplexer.start(command.program, command.archive, timeout=START_TIMEOUT)
        except NotStartedError as error:
            lost = self.is_lost()
            shell = "" if lost else self._find_login_shell()
            raise build_not_started_error(self.host, error, lost=lost, shell=shell) from error
        except (ChannelTimeoutError, OSError) as error:
            raise build_silent_error(self.host, self._multiplexer) from error

    def _find_login_shell(self) -> str:
        """Return the path of the login shell, as sshd sets it, or "" where it does not run that."""
        with contextlib.suppress(HostError, ChannelTimeoutError, OSError):
            channel = self._start(SHOW_SHELL)
            channel.feed(())
            lines = channel.finish(SHELL_TIMEOUT).text.splitlines()
            return next((line for line in reversed(lines) if line.startswith("/")), "")
        return ""

    def _start_alone(self, command: Command) -> Channel:
        channel = self._start(command)
        if command.archive:
            with contextlib.suppress(OSError):  # the exit status shows why it takes no input
                channel.send(command.archive)
        return channel

    def keep(self, channel: Channel) -> None:
        """Let `channel` outlive `abort`; it ends with the connection."""
        self._channels.discard(channel)
        self._kept.append(channel)

    def abort(self) -> None:
        """Drop every channel that is open, or opened until `resume`; those who wait see it end.

        A thread that was about to open one would wait for it in vain.
        """
        self._aborted = True
        for channel in tuple(self._channels):
            channel.close()

    def resume(self) -> None:
        """Let channels be opened again, once no aborted thread uses the connection."""
        self._aborted = False

    @abstractmethod
    def _start(self, command: Command) -> Channel: ...

    def close(self) -> None:
        """Close the connection."""
        for channel in self._kept:
            channel.close()
        if self._multiplexer is not None:
            self._multiplexer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(
        self,
        command: Command,
        *,
        payload: Iterable[bytes] = (),
        timeout: float = DEFAULT_TIMEOUT,
        hold: bool = False,
    ) -> Result:
        """Run `command` to its end, with its `stdin` and then `payload` as standard input.

        With `hold` the input stays open until the command has ended: one that watches its input
        then ends when this run is cut. The exit status is the caller's to judge. Raises
        UnreachableError if the host is lost.
        """
        channel = self.open(command, alone=bool(payload))
        channel.feed(_join_input(command.stdin, payload), end=not hold)
        result = channel.finish(timeout)
        if hold:
            channel.close()
        if self.is_lost():
            raise build_lost_error(self.host, "while a command ran")
        return result

    def is_lost(self) -> bool:
        """Return whether the connection broke after it was opened, or the host gave this run up.

        The latter ends what `keep` was called for, such as a lock: the run must not go on without.
        """
        multiplexer = self._multiplexer
        if multiplexer is None or not self._kept:
            return False
        return multiplexer.over or multiplexer.is_stale()

    def restore_with(self, restorer: Callable[[Connection], None]) -> None:
        """Let `restorer` bring back after a reconnect what had ended, such as a lock."""
        self._restorers.append(restorer)

    def reconnect(self) -> None:
        """Open the connection again; what ran over it has ended. Raises UnreachableError.

        Also raises what a restorer raises: without the lock, a run must not go on.
        """
        if self._aborted:
            raise build_lost_error(self.host)
        self._discard()
        self._open_again()
        self.reopened += 1
        for restorer in self._restorers:
            restorer(self)

    def reopen_if_lost(self, since: int) -> bool:
        """Open the connection again if it broke; return whether that was done after `since` times.

        For work of several threads that share it: one of them opens it. Raises as `reconnect`.
        """
        with self._reopening:
            if self.is_lost():
                self.reconnect()
        return self.reopened > since

    def repeat_after_loss(self, work: Callable[[], T], *, times: int = REPEATS) -> T:
        """Do `work`, and again over a new connection where it breaks, at most `times`.

        For work that may be done twice: questions, and files that are written whole.
        """
        for _ in range(times):
            try:
                return work()
            except UnreachableError:
                if not self.is_lost():
                    raise
                self.reconnect()
        return work()

    def _open_again(self) -> None:
        raise build_lost_error(self.host)

    def _discard(self) -> None:
        """Forget what ended with the connection."""
        Connection.close(self)
        self._kept.clear()
        self._multiplexer = None

    def run_program(
        self,
        program: str,
        request: Mapping[str, Any],
        *,
        payload: Iterable[bytes] = (),
        timeout: float = DEFAULT_TIMEOUT,
        python: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Run the program `onhost/<program>.py` with `request` and return its one-line answer.

        Raises CommandError if it fails; a program refuses with ``{"error": ..., "hint": ...}``.
        """
        result = self.run(
            build_script_command(program, request, python=python), payload=payload, timeout=timeout
        )
        return self.parse_answer(program, result)

    def query(
        self,
        program: str,
        request: Mapping[str, Any],
        parser: Callable[[Any], T],
        *,
        timeout: float = DEFAULT_TIMEOUT,
        python: Sequence[str] = (),
    ) -> T:
        """Run a program as `run_program` does and return what `parser` makes of its answer.

        Raises CommandError also for an answer that `parser` cannot read.
        """
        answer = self.run_program(program, request, timeout=timeout, python=python)
        return parse_answer(parser, answer, self.host.name, program)

    def parse_answer(self, program: str, result: Result) -> dict[str, Any]:
        """Return the JSON object in the last line of `result`, or raise the CommandError it is."""
        last = result.stdout.rstrip(b"\n").rsplit(b"\n", 1)[-1]
        reply: Any = None
        if last.startswith(b"{"):
            try:
                reply = parse_json(last, parse_int=parse_json_integer)
            except (ValueError, RecursionError):
                reply = None
        if result.returncode == 0 and isinstance(reply, dict) and "error" not in reply:
            return reply
        raise self._failure(program, result, reply)

    def _failure(self, program: str, result: Result, reply: Any) -> CommandError:
        if isinstance(reply, dict) and "error" in reply:
            hint = reply.get("hint")
            return CommandError(
                str(reply["error"]),
                host=self.host.name,
                hint=None if hint is None else str(hint),
            )
        if result.returncode == NOT_FOUND:
            return build_no_python_error(self.host)
        tail = "\n".join(result.stderr.strip().splitlines()[-TAIL_LINES:])
        if tail.endswith(NO_HOME):
            return CommandError(
                "a folder begins with ~USER, and that user does not exist on this host",
                host=self.host.name,
                hint="use ~/FOLDER or an absolute path in cluster_dir and weights_dir",
            )
        return CommandError(
            f"the {PurePosixPath(program).name} program exited with status {result.returncode}"
            + (f":\n{tail}" if tail else ""),
            host=self.host.name,
        )


def _join_input(first: bytes, rest: Iterable[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from rest
