"""Readings that several programs take of this host: its tools, its endpoint, its lock."""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import io
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

PATIENCE = 5  # seconds for a tool or the endpoint
LATE = "timed out"
MAX_ANSWER = 8 << 20  # bytes of an answer
TOO_LONG = "its answer is too long"
BROKE_OFF = "its answer was cut off"
NOT_HTTP = "its answer is not HTTP; does another program use that port?"
SHOWN = 80  # characters of it
APPS = ("nvidia-smi", "--query-compute-apps=pid,process_name,used_memory", "--format=csv")
GPU_STATE = ("nvidia-smi", "--query-gpu=power.draw,temperature.gpu,clocks.sm", "--format=csv")
# The end of the boot before: journalctl(1), last(1) of https://man7.org/linux/man-pages
JOURNAL = ("journalctl", "-b", "-1", "-n", "60", "-o", "short-unix", "--no-pager", "-q")
WTMP = ("last", "-Fxn2", "shutdown", "reboot")
GPU_REASONS = ("nvidia-smi", "--query-gpu=clocks_event_reasons.active", "--format=csv")


class ToolOutput(NamedTuple):
    """The output of a tool; None with its `error` where it failed, without where it is absent."""

    text: str | None
    error: str = ""


class EndpointAnswer(NamedTuple):
    """An answer of the endpoint; its `status` is 0, with the `error`, where there was none."""

    status: int
    text: str = ""
    error: str = ""


def run_tool(*argv: str, patience: float = PATIENCE) -> ToolOutput:
    """Return the output of a tool within `patience` s."""
    if shutil.which(argv[0]) is None:
        return ToolOutput(None)
    try:
        done = subprocess.run(argv, capture_output=True, timeout=patience, check=False)
    except subprocess.TimeoutExpired:
        return ToolOutput(None, f"no answer within {patience:.0f} s")
    text = done.stdout.decode(errors="replace")
    if done.returncode == 0:
        return ToolOutput(text)
    words = (done.stderr.decode(errors="replace").strip() or text.strip()).splitlines()
    return ToolOutput(None, words[-1] if words else f"status {done.returncode}")


def read_last_boot(patience: float) -> dict[str, str]:
    """Return the end of that boot's ``journal``, and ``wtmp``; "" where a tool lists none."""
    return {
        "journal": run_tool(*JOURNAL, patience=patience).text or "",
        "wtmp": run_tool(*WTMP, patience=patience).text or "",
    }


class TooLongError(OSError):
    """More came than a `AnswerBudget` has."""


class AnswerBudget:
    """Bytes that may still come from servers; several answers can share them."""

    def __init__(self, most: int) -> None:
        self.left = most

    def spend(self, count: int) -> None:
        """Take `count` bytes off; raise TooLongError where fewer are left."""
        self.left -= count
        if self.left < 0:
            raise TooLongError(TOO_LONG)


class _BoundedFile(io.RawIOBase):
    """The bytes of a connection as a file that ends with its `budget`, whatever lengths they say.

    ``http.client`` reads without end for a chunk whose length is negative.
    """

    def __init__(self, file: Any, budget: AnswerBudget) -> None:
        self._file = file
        self._budget = budget

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        count: int | None = self._file.readinto(buffer)
        self._budget.spend(count or 0)
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


class _BoundedSocket:
    """The part of a socket that ``http.client`` uses, with a budget for the bytes that come."""

    def __init__(self, wire: socket.socket, budget: AnswerBudget) -> None:
        self.sendall = wire.sendall
        self.close = wire.close
        self._wire = wire
        self._budget = budget

    def makefile(self, _: str) -> io.BufferedReader:
        file = self._wire.makefile("rb", buffering=0)
        return io.BufferedReader(_BoundedFile(file, self._budget))


@contextlib.contextmanager
def open_answer(
    url: str,
    *,
    patience: float,
    budget: AnswerBudget,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> Iterator[http.client.HTTPResponse]:
    """Yield the answer to a GET, or to a POST of `body`; it has `patience` s for its last byte.

    What listens at a port of this host can be another program, or broken. A redirect is not
    followed, since the key would go with it, and no proxy is used. Raises TimeoutError, with
    TooLongError and what ``http.client`` says of no HTTP other kinds of OSError and HTTPException.
    """
    parts = urllib.parse.urlsplit(url)
    deadline = time.monotonic() + patience
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=patience)
    late = threading.Event()
    try:
        connection.connect()
        wire = connection.sock
        left = max(0.0, deadline - time.monotonic())
        with _limit_time(wire, left, late), contextlib.closing(connection):
            connection.sock = _BoundedSocket(wire, budget)
            method = "GET" if body is None else "POST"
            connection.request(method, parts.path or "/", body, dict(headers or {}))
            yield connection.getresponse()
    except (OSError, http.client.HTTPException) as error:
        if late.is_set() or isinstance(error, TimeoutError):
            raise TimeoutError(LATE) from error
        raise
    except (ValueError, OverflowError) as error:  # of a length that is none
        raise TimeoutError(LATE) if late.is_set() else http.client.HTTPException(error) from error
    if late.is_set():
        raise TimeoutError(LATE)


def ask_endpoint(
    url: str, path: str, *, patience: float = PATIENCE, headers: Mapping[str, str] | None = None
) -> EndpointAnswer:
    """Return the whole answer of a server on this host within `patience` s, error pages without."""
    budget = AnswerBudget(MAX_ANSWER)
    try:
        with open_answer(url + path, patience=patience, budget=budget, headers=headers) as reply:
            if reply.status >= http.HTTPStatus.BAD_REQUEST:
                return EndpointAnswer(reply.status)
            data = reply.read()  # as long as the budget
    except (OSError, http.client.HTTPException) as error:
        return EndpointAnswer(0, error=explain_no_answer(error))
    return EndpointAnswer(reply.status, data.decode(errors="replace"))


def explain_no_answer(error: Exception) -> str:
    """Return what an error of `open_answer` means."""
    if isinstance(error, (http.client.IncompleteRead, http.client.RemoteDisconnected)):
        return BROKE_OFF
    if isinstance(error, http.client.HTTPException):
        return f"{NOT_HTTP} ({str(error)[:SHOWN]!r})"
    return str(error) or repr(error)


@contextlib.contextmanager
def _limit_time(wire: socket.socket, seconds: float, late: threading.Event) -> Iterator[None]:
    """Cut a connection after `seconds`, and set `late`."""

    def cut() -> None:
        late.set()
        with contextlib.suppress(OSError):
            wire.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def is_lock_held(lock: Path) -> bool:
    """Return whether a run holds the lock of the cluster."""
    try:
        with lock.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
