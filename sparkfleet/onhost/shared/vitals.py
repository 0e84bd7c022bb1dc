"""Readings that several programs take of this host: its tools, its endpoint, its lock."""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import shutil
import socket
import subprocess
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

PATIENCE = 5  # s for a tool or the endpoint
LATE = "timed out"
MOST_ANSWER = 8 << 20  # bytes of an answer
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


def ask_endpoint(
    url: str, path: str, *, patience: float = PATIENCE, headers: Mapping[str, str] | None = None
) -> EndpointAnswer:
    """Return the whole answer of a server on this host within `patience` s, error pages without.

    Another program at that port may send a byte now and then: the time is that of all bytes.
    """
    parts = urllib.parse.urlsplit(url + path)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=patience)
    late = threading.Event()
    try:
        connection.connect()
        with _limit_time(connection.sock, patience, late), contextlib.closing(connection):
            connection.request("GET", parts.path or "/", headers=dict(headers or {}))
            reply = connection.getresponse()
            if reply.status >= http.HTTPStatus.BAD_REQUEST:
                return EndpointAnswer(reply.status)
            data = reply.read(MOST_ANSWER + 1)
            if reply.length and not late.is_set():
                why = "is too long" if len(data) > MOST_ANSWER else "broke off"
                return EndpointAnswer(0, error=f"its answer {why}")
    except (OSError, http.client.HTTPException) as error:
        is_late = late.is_set() or isinstance(error, TimeoutError)
        return EndpointAnswer(0, error=LATE if is_late else str(error) or repr(error))
    if late.is_set():
        return EndpointAnswer(0, error=LATE)
    return EndpointAnswer(reply.status, data.decode(errors="replace"))


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
