"""Run programs for the client of one channel: many at a time, each in a process of its own.

Frames go both ways: a stream's number (4 bytes), what it is (1 byte), a length (4 bytes), all
big-endian, and that many bytes. From the client: ``z`` an archive with programs, kept until the
end, ``s`` start this module of one as a program, ``i`` its input, ``e`` the end of its input, ``d``
drop it. From here: ``a`` it runs, ``o`` its output, ``r`` its standard error, ``x`` its exit status
in decimals, the last frame of a stream. ``k`` is a heartbeat of the client, which is sent back.

A program is a fork of this process, which spares it the start of Python; standard input, output
and error are its own pipes, and it leads a session of its own, as one that sshd starts. When the
connection to the client ends, the input of every program ends. So it does where no byte of a client
with heartbeats arrives for `SILENCE`: its machine is off or cut off, which this host's kernel would
not notice for hours. A lock is not held longer than that.
"""

from __future__ import annotations

import contextlib
import json  # noqa: F401 - so that no program has to load it
import os
import pathlib  # noqa: F401 - the same
import selectors
import signal
import struct
import sys
from typing import Any

from sparkfleet.onhost.shared.labels import FRAMES_MARK, SILENCE
from sparkfleet.onhost.shared.program_archive import FINDER, load_archive, run_module

HEADER = struct.Struct(">IcI")
PIECE = 1 << 16  # bytes read at once
TICK = 0.005  # seconds between two looks at a process whose pipes have ended
HIGHEST = 1024  # no descriptor of this process is above it


class SilentClientError(Exception):
    """The client sent nothing for `SILENCE`."""


class ChildProgram:
    """A program that runs, and our ends of its pipes."""

    def __init__(self, pid: int, pipes: tuple[int, int, int]) -> None:
        self.pid = pid
        self.input, self.output, self.errors = pipes
        self.waiting = bytearray()  # input that it has not taken yet
        self.ended = False  # its input is to end after that


class MultiplexerServer:
    """The programs of one client."""

    def __init__(self) -> None:
        self.programs: dict[int, ChildProgram] = {}
        self.done: set[int] = set()  # pipes have ended, the process perhaps not yet
        self.selector = selectors.DefaultSelector()
        self.selector.register(0, selectors.EVENT_READ, self.read_frames)
        self.buffer = bytearray()
        self.open = True
        self.beats = False  # the client sends heartbeats

    def run(self) -> None:
        """Serve until the client closes its end."""
        while self.open:
            for key, _ in self.selector.select(TICK if self.done else None):
                if self.selector.get_map().get(key.fd) == key:  # else one before it closed the pipe
                    key.data()
            for number in tuple(self.done):
                self.reap(number)

    def read_frames(self) -> None:
        """Read frames from the client."""
        piece = os.read(0, PIECE)
        if self.beats:
            signal.setitimer(signal.ITIMER_REAL, SILENCE)
        self.open = bool(piece)
        self.buffer += piece
        while len(self.buffer) >= HEADER.size:
            number, kind, length = HEADER.unpack_from(self.buffer)
            end = HEADER.size + length
            if len(self.buffer) < end:
                return
            data = bytes(self.buffer[HEADER.size : end])
            del self.buffer[:end]
            if kind == b"z":
                load_archive(data)
                with contextlib.suppress(SyntaxError):  # of a program, which will say so itself
                    FINDER.compile_all()
            elif kind == b"s":
                self.start(number, data.decode())
            elif kind == b"k":
                self.beats = True
                signal.setitimer(signal.ITIMER_REAL, SILENCE)
                send_frame(number, b"k", data)
            elif number in self.programs:
                self.handle_frame(number, kind, data)

    def handle_frame(self, number: int, kind: bytes, data: bytes) -> None:
        """Pass a program its input, or end or drop it."""
        program = self.programs[number]
        if kind == b"d":
            program.waiting.clear()
            program.ended = True
            for pipe in (program.output, program.errors):
                self.close_pipe(pipe)
            program.output = program.errors = -1
            self.done.add(number)
        program.waiting += data if kind == b"i" else b""
        program.ended = program.ended or kind == b"e"
        self.feed_input(program)

    def start(self, number: int, module: str) -> None:
        """Start a program."""
        pipes = [os.pipe() for _ in range(3)]
        child_ends = [pipes[0][0], pipes[1][1], pipes[2][1]]
        parent_ends = (pipes[0][1], pipes[1][0], pipes[2][0])
        pid = os.fork()
        if pid == 0:
            self.selector.close()  # its collection would close a file of the program by number
            become_program(module, child_ends)
        for pipe in child_ends:
            os.close(pipe)
        os.set_blocking(parent_ends[0], False)
        self.programs[number] = ChildProgram(pid, parent_ends)
        for kind, pipe in ((b"o", parent_ends[1]), (b"r", parent_ends[2])):
            self.selector.register(pipe, selectors.EVENT_READ, self.make_reader(number, kind, pipe))
        send_frame(number, b"a")

    def make_reader(self, number: int, kind: bytes, pipe: int) -> Any:
        """Return what passes a program's output on."""

        def read() -> None:
            program = self.programs[number]
            piece = os.read(pipe, PIECE)
            if piece:
                send_frame(number, kind, piece)
                return
            self.close_pipe(pipe)
            program.output = -1 if program.output == pipe else program.output
            program.errors = -1 if program.errors == pipe else program.errors
            if program.output == program.errors == -1:
                self.done.add(number)

        return read

    def feed_input(self, program: ChildProgram) -> None:
        """Write as much of a program's input as it takes now."""
        if program.input == -1:
            return
        try:
            while program.waiting:
                del program.waiting[: os.write(program.input, program.waiting)]
        except BlockingIOError:
            if program.input not in self.selector.get_map():
                pour = lambda: self.feed_input(program)  # noqa: E731 - what the selector calls
                self.selector.register(program.input, selectors.EVENT_WRITE, pour)
            return
        except OSError:  # it does not read any more
            program.ended = True
        if program.input in self.selector.get_map():
            self.selector.unregister(program.input)
        if program.ended:
            os.close(program.input)
            program.input = -1

    def close_pipe(self, pipe: int) -> None:
        """Close a pipe that we read."""
        if pipe != -1:
            self.selector.unregister(pipe)
            os.close(pipe)

    def reap(self, number: int) -> None:
        """Report the exit status of a program that has ended."""
        pid, status = os.waitpid(self.programs[number].pid, os.WNOHANG)
        if pid:
            self.done.remove(number)
            program = self.programs.pop(number)
            program.waiting.clear()
            program.ended = True
            self.feed_input(program)
            send_frame(number, b"x", b"%d" % compute_exit_status(status))


def compute_exit_status(status: int) -> int:
    """Return the exit status, as a shell counts it, from the status of waitpid."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def become_program(module: str, pipes: list[int]) -> None:
    """Be the program, in the process that was forked for it; never returns."""
    os.setsid()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for number, pipe in enumerate(pipes):
        os.dup2(pipe, number)
    os.closerange(3, HIGHEST)
    sys.stdin = os.fdopen(0)
    sys.stdout = os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", errors="backslashreplace")
    try:
        run_module(module)
    except BrokenPipeError:  # of the program: `main` would take it for the client's
        sys.excepthook(*sys.exc_info())
        sys.exit(1)
    sys.exit()


def end_silence(*_: object) -> None:
    """Leave whatever waits for the client, be it a read or a write."""
    raise SilentClientError


def send_frame(number: int, kind: bytes, data: bytes = b"") -> None:
    """Send a frame to the client, all of it."""
    frame = HEADER.pack(number, kind, len(data)) + data
    while frame:
        frame = frame[os.write(1, frame) :]


def main() -> None:
    """Serve on standard input and output."""
    signal.signal(signal.SIGALRM, end_silence)
    with contextlib.suppress(BrokenPipeError, SilentClientError):
        os.write(1, FRAMES_MARK)
        MultiplexerServer().run()


if __name__ == "__main__":
    main()
