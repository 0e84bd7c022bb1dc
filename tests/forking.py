"""Servers that fork for each process that a test starts: one has imported what they all need.

Both ends are here. A request is JSON with four descriptors: the three standard streams, and a
socket for the PID and then the exit status. Many processes may run at once.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Self

LARGEST = 1 << 17  # bytes of a request
ENVIRONMENT = dict(os.environ)  # before a test changes it


def serve_forks(become: Callable[[Any], None]) -> None:
    """Fork for each request on standard input, until its other end is closed.

    `become` is called in the fork, which has its standard streams, and ends with it.
    """
    gc.freeze()  # else each child copies what its first collection touches
    requests = socket.socket(fileno=os.dup(0))
    with selectors.DefaultSelector() as waiting:
        waiting.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in waiting.select():
                if key.data:
                    waiting.unregister(key.fd)
                    _send_status(key.fd, *key.data)
                    continue
                text, descriptors, _, _ = socket.recv_fds(requests, LARGEST, 4)
                if not text:
                    return
                child = os.fork()
                if child == 0:
                    waiting.close()
                    requests.close()
                    _take_streams(descriptors)
                    _run_and_exit(become, json.loads(text))
                for descriptor in descriptors[:3]:
                    os.close(descriptor)
                answers = socket.socket(fileno=descriptors[3])
                answers.send(b"%d" % child)
                waiting.register(os.pidfd_open(child), selectors.EVENT_READ, (child, answers))


def _run_and_exit(become: Callable[[Any], None], request: Any) -> None:
    """Call `become` and exit as Python does, but free no memory: a fork would copy all of it."""
    status = 0
    try:
        become(request)
    except SystemExit as leaving:
        if not isinstance(leaving.code, int | None):
            raise
        status = leaving.code or 0
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):  # which Python reports when it exits
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
        os._exit(status & 0xFF)
    sys.exit(status)


def _take_streams(descriptors: Sequence[int]) -> None:
    """Make the descriptors of a request the standard streams."""
    for number, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, number)
    for descriptor in descriptors:
        os.close(descriptor)


def _send_status(pidfd: int, child: int, answers: socket.socket) -> None:
    """Send the exit status of a child that has ended, to a test that may no longer wait."""
    os.close(pidfd)
    _, status = os.waitpid(child, 0)
    with answers:
        try:
            answers.send(b"%d" % os.waitstatus_to_exitcode(status))
        except OSError:
            return


@dataclass(slots=True, kw_only=True)
class ForkedProcess:
    """A process that a server forked, with what tests use of a `Popen`."""

    pid: int
    answers: socket.socket
    stdin: IO[Any] | None = None
    stdout: IO[Any] | None = None
    stderr: IO[Any] | None = None
    returncode: int | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status; raises TimeoutExpired."""
        if self.returncode is None:
            poller = select.poll()
            poller.register(self.answers, select.POLLIN)
            if not poller.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired("a fork", timeout or 0)
        with self.lock:
            if self.returncode is None:
                answer = self.answers.recv(100)
                assert answer, "the fork server has ended"
                self.answers.close()
                self.returncode = int(answer)
        return self.returncode

    def poll(self) -> int | None:
        """Return the exit status, or None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def read_rest(self) -> tuple[int, str]:
        """Return the exit status and what is still to be read of its output."""
        assert self.stdout is not None
        rest: str = self.stdout.read()
        return self.wait(), rest

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error:  # the test failed: it must not wait for a program that runs until it is stopped
            self.kill()
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkServer:
    """A process that calls `serve_forks`; it ends when this one does, with its socket."""

    process: subprocess.Popen[bytes]
    requests: socket.socket

    @classmethod
    def launch(cls, *words: str) -> Self:
        """Start the Python program `words`, in the environment that the tests were started in."""
        ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, *words], stdin=theirs.fileno(), env=ENVIRONMENT
            )
        return cls(process=process, requests=ours)

    def start(self, request: Mapping[str, object], files: Sequence[int]) -> ForkedProcess:
        """Start a process with the three `files` as its standard streams."""
        ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with theirs:
            text = json.dumps(request).encode()
            socket.send_fds(self.requests, [text], [*files, theirs.fileno()])
        pid = ours.recv(100)
        assert pid, f"the fork server ended with {self.process.wait()}"
        return ForkedProcess(pid=int(pid), answers=ours)

    def close(self) -> None:
        """End it."""
        self.requests.close()
        self.process.wait()
