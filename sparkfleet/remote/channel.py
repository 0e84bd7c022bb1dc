"""One command running on one host: bytes in, bytes out, an exit status."""

from __future__ import annotations

import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

STDERR_KEPT = 256 * 1024  # bytes; the end of a traceback is what matters
DRAIN_TIME = 1.0  # seconds that the last of standard error gets to arrive
PIECE = 256 * 1024  # bytes a read
MAX_OUTPUT = 256 << 20  # bytes that one command may print
MAX_LINE = 64 << 20  # bytes of a line
FLOODED = 125  # the exit status of a command that was stopped for printing more


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The outcome of a command; exit status 124 means that it ran out of time."""

    returncode: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        """Standard output as text; bytes that are not UTF-8 show as escapes."""
        return self.stdout.decode(errors="backslashreplace")


class ChannelTimeoutError(Exception):
    """Nothing arrived in time; the caller knows which host and what it waited for."""


@contextlib.contextmanager
def translate_eof() -> Iterator[None]:
    """Raise OSError where a library has EOFError for a connection that it cannot write to."""
    try:
        yield
    except EOFError as error:
        raise ConnectionResetError("the connection broke") from error


class Channel(ABC):
    """A running command. Standard error is drained aside, so that it can never stall the rest."""

    def __init__(self) -> None:
        self._errors = bytearray()
        self._drain = threading.Thread(target=self._drain_stderr, daemon=True)
        self._drain.start()

    @abstractmethod
    def send(self, data: bytes) -> None:
        """Write `data` to standard input, all of it; raise OSError if the command has ended."""

    @abstractmethod
    def end_input(self) -> None:
        """Close standard input."""

    @abstractmethod
    def receive(self, deadline: float | None = None) -> bytes:
        """Return the next bytes of standard output, or ``b""`` at its end.

        `deadline` is a `time.monotonic()` value; past it, raise ChannelTimeoutError.
        """

    @abstractmethod
    def wait(self) -> int:
        """Return the exit status, after standard output has ended."""

    @abstractmethod
    def close(self) -> None:
        """Drop the channel at once; the command sees its standard input end."""

    @abstractmethod
    def _read_stderr(self) -> bytes: ...

    def _drain_stderr(self) -> None:
        while piece := self._read_stderr():
            self._errors += piece
            del self._errors[:-STDERR_KEPT]

    @property
    def stderr(self) -> str:
        """The standard error of the command so far (its last 256 KiB)."""
        return bytes(self._errors).decode(errors="backslashreplace")

    def read_last_stderr(self) -> str:
        """Return the standard error of a command that has ended, once its last bytes are here."""
        self._drain.join(DRAIN_TIME)
        return self.stderr

    def lines(
        self, deadline: float | None = None, *, silence: float | None = None
    ) -> Iterator[bytes]:
        """Yield standard output line by line, without the line ends.

        Raises ChannelTimeoutError past `deadline`, or after `silence` seconds without a byte.
        """
        rest = b""
        while piece := self.receive(time.monotonic() + silence if silence else deadline):
            *whole, rest = (rest + piece).split(b"\n")
            yield from whole
            if len(rest) > MAX_LINE:
                raise ChannelTimeoutError(f"a line of more than {MAX_LINE} bytes")
        if rest:
            yield rest

    def feed(self, chunks: Iterable[bytes], *, end: bool = True) -> None:
        """Write all `chunks` from another thread, and close standard input unless `end` is false.

        A command that ends before it has read everything is not an error here; see its exit status.
        """

        def write() -> None:
            try:
                for chunk in chunks:
                    self.send(chunk)
                if end:
                    self.end_input()
            except OSError:
                return

        threading.Thread(target=write, daemon=True).start()

    def finish(self, timeout: float) -> Result:
        """Read the command to its end and return how it ended, or status 124 after `timeout` s."""
        deadline = time.monotonic() + timeout
        pieces: list[bytes] = []
        try:
            size = 0
            while piece := self.receive(deadline):
                pieces.append(piece)
                size += len(piece)
                if size > MAX_OUTPUT:
                    return self._drop_flooded()
            status = self.wait()
        except ChannelTimeoutError:
            status = 124
        self.close()
        return Result(returncode=status, stdout=b"".join(pieces), stderr=self.read_last_stderr())

    def _drop_flooded(self) -> Result:
        self.close()
        stderr = f"it printed more than {MAX_OUTPUT >> 20} MiB and was stopped"
        return Result(returncode=FLOODED, stdout=b"", stderr=stderr)
