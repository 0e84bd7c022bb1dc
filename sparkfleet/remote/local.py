"""Connection to this machine as a host (`ansible_connection: local`)."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
from typing import TYPE_CHECKING

from sparkfleet.errors import CommandError
from sparkfleet.remote.channel import PIECE, Channel, ChannelTimeoutError
from sparkfleet.remote.connection import Connection

if TYPE_CHECKING:
    from sparkfleet.commands import Command


LONGEST_POLL = (1 << 31) - 1  # ms, what poll(2) takes
PATIENCE = 1.0  # seconds that a command gets to end when its input has


class LocalConnection(Connection):
    """Runs commands here, without SSH, in the user's home directory as SSH would."""

    def _start(self, command: Command) -> Channel:
        try:
            child = subprocess.Popen(
                command.argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **command.env},
                cwd=os.path.expanduser("~"),  # noqa: PTH111 - Popen wants text
                start_new_session=True,
            )
        except OSError as error:
            raise CommandError(
                f"{command.argv[0]}: {error.strerror}", host=self.host.name
            ) from error
        return LocalChannel(child)

    def _open_again(self) -> None:
        """Do nothing: a program that is started next gets a multiplexer of its own."""


class LocalChannel(Channel):
    """A child process."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        super().__init__()

    def send(self, data: bytes) -> None:
        """Write `data` to the command's standard input."""
        assert self._child.stdin is not None  # noqa: S101 - we asked for a pipe
        try:
            self._child.stdin.write(data)
            self._child.stdin.flush()
        except ValueError as error:  # another thread has closed it
            raise BrokenPipeError from error

    def end_input(self) -> None:
        """Close the command's standard input."""
        assert self._child.stdin is not None  # noqa: S101 - we asked for a pipe
        self._child.stdin.close()

    def receive(self, deadline: float | None = None) -> bytes:
        """Return the next bytes of standard output, or ``b""`` at its end."""
        assert self._child.stdout is not None  # noqa: S101 - we asked for a pipe
        try:
            if deadline is not None:
                poller = select.poll()  # unlike select, it takes any number of open files
                poller.register(self._child.stdout, select.POLLIN)
                wait = max(deadline - time.monotonic(), 0)
                if not poller.poll(min(wait * 1000, LONGEST_POLL)):
                    raise ChannelTimeoutError
            return os.read(self._child.stdout.fileno(), PIECE)
        except (ValueError, OSError):  # another thread has closed it
            return b""

    def wait(self) -> int:
        """Return the exit status."""
        return self._child.wait()

    def close(self) -> None:
        """End the command's input; kill it if it does not end by itself within a second."""
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # unsent input of a command that has ended
                    pipe.close()
        try:
            self._child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def _drain_stderr(self) -> None:
        super()._drain_stderr()
        if self._child.stderr is not None:
            self._child.stderr.close()

    def _read_stderr(self) -> bytes:
        assert self._child.stderr is not None  # noqa: S101 - we asked for a pipe
        return os.read(self._child.stderr.fileno(), PIECE)
