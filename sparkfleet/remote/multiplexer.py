"""On-host programs over one channel: a stream each, which behaves like a channel.

`onhost/transport/multiplexer.py` runs at the other end and defines the protocol. A program costs no
channel and no start of Python then: 10 ms in place of 21 on a lab host.

Heartbeats keep it alive. The other end ends after `SILENCE` without one, and so gives up the locks
that it holds; here, `is_stale` counts by a clock that goes on while this machine sleeps.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import struct
import threading
import time

from sparkfleet.onhost.shared.labels import BEAT, FRAMES_MARK, SILENCE
from sparkfleet.remote.channel import FLOODED, Channel, ChannelTimeoutError
from sparkfleet.values import parse_digits

HEADER = struct.Struct(">IcI")
MOMENT = struct.Struct(">d")  # when a heartbeat was sent, which comes back
ARCHIVE = b"z"
START = b"s"
INPUT = b"i"
END = b"e"
DROP = b"d"
HEARTBEAT = b"k"
OUTPUT = b"o"
ERRORS = b"r"
STATUS = b"x"
LOST = 255  # the exit status that ssh(1) gives when the connection ended first
GRACE = 1.0  # seconds that the other end gets to go
END_TIMEOUT = 10.0  # seconds for a command that has closed its output to end
MAX_FRAME = 1 << 20  # bytes; the other end sends pieces of 64 KiB
MAX_NOISE = 1 << 16  # bytes that a login shell may print before the first frame
STALE_AFTER = SILENCE - BEAT  # seconds since a heartbeat was sent that has been answered
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
MAX_WAITING = 256 << 20  # bytes of one program that wait to be read


class NotStartedError(Exception):
    """The command for the multiplexer ended or flooded before the multiplexer ran."""

    def __init__(self, status: int, stderr: str, noise: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.stderr = stderr
        self.noise = noise


class MultiplexerClient:
    """The programs of one host; `channel` leads to `onhost/transport/multiplexer.py`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._numbers = itertools.count()
        self._streams: dict[int, Stream] = {}
        self._sent: set[bytes] = set()  # archives that the other end has
        self._sending = threading.Lock()
        self._lock = threading.Lock()
        self.over = False
        self.greeted = False  # the multiplexer runs
        self.noise = b""  # what came before it
        self._status = LOST
        self._ended = threading.Event()
        self._answered = 0.0  # seconds, when the last heartbeat was sent that was answered
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def start(self, program: str, archive: bytes, *, timeout: float) -> Stream:
        """Start the module `program` of `archive`, which is sent if it is new to the other end.

        Raises ChannelTimeoutError, NotStartedError, or OSError if the multiplexer has ended.
        """
        stream = Stream(self, next(self._numbers))
        self._streams[stream.number] = stream
        try:
            with self._sending:  # the archive first, and once
                if archive not in self._sent:
                    self.write(stream.number, ARCHIVE, archive)
                    self._sent.add(archive)
                self.write(stream.number, START, program.encode())
        except OSError:
            self._await_end()
            if self.greeted or self._reader.is_alive():
                raise
        else:
            stream.await_start(timeout)
        if self.over and not self.greeted:
            self._await_end()
            raise NotStartedError(self._status, self._channel.read_last_stderr(), self.noise)
        return stream

    def _await_end(self) -> None:
        self._reader.join(GRACE)
        if self.over:  # the reader only waits for a command to go, which is killed if need be
            self._reader.join(END_TIMEOUT)

    def write(self, number: int, kind: bytes, data: bytes = b"") -> None:
        """Send a frame; raises OSError if the other end has closed."""
        with self._lock:
            if self.over:
                raise BrokenPipeError
            self._channel.send(HEADER.pack(number, kind, len(data)) + data)

    def forget(self, number: int) -> None:
        """Let a stream go; what still arrives for it is dropped."""
        if self._streams.pop(number, None):
            with contextlib.suppress(OSError):
                self.write(number, DROP)

    def close(self) -> None:
        """End all programs' input, and the channel."""
        with contextlib.suppress(OSError):
            self._channel.end_input()
        self._reader.join(GRACE)
        self._channel.close()

    def _read(self) -> None:
        heard = bytearray()
        ended = False
        with contextlib.suppress(OSError, ValueError):  # closed while we read
            while piece := self._channel.receive():
                heard += piece
                if not (self.greeted or self._find_mark(heard)):
                    continue
                while len(heard) >= HEADER.size:
                    number, kind, length = HEADER.unpack_from(heard)
                    if length > MAX_FRAME:
                        raise ValueError(f"a frame of {length} bytes")
                    end = HEADER.size + length
                    if len(heard) < end:
                        break
                    self._pass_on(number, kind, bytes(heard[HEADER.size : end]))
                    del heard[:end]
            ended = True
        self._end(ended=ended)

    def _find_mark(self, heard: bytearray) -> bool:
        """Return whether the mark has come; leave in `heard` what follows it."""
        noise, mark, rest = bytes(heard).partition(FRAMES_MARK)
        self.noise = noise[:MAX_NOISE]
        self.greeted = bool(mark)
        if self.greeted:
            heard[:] = rest
            self._answered = time.clock_gettime(CLOCK)
            threading.Thread(target=self._send_heartbeats, daemon=True).start()
        elif len(noise) > MAX_NOISE:
            raise ValueError("no multiplexer, but much output")
        return self.greeted

    def is_stale(self) -> bool:
        """Return whether the other end may have given this client up."""
        return self.greeted and time.clock_gettime(CLOCK) - self._answered > STALE_AFTER

    def _send_heartbeats(self) -> None:
        with contextlib.suppress(OSError):  # the connection broke
            while not self._ended.is_set():
                self.write(0, HEARTBEAT, MOMENT.pack(time.clock_gettime(CLOCK)))
                self._ended.wait(BEAT)

    def _pass_on(self, number: int, kind: bytes, data: bytes) -> None:
        if kind == HEARTBEAT:
            self._answered = self._parse_moment(data)
            return
        stream = self._streams.get(number)
        if stream is None:
            return
        stream.take(kind, data)
        if kind == STATUS:
            self._streams.pop(number, None)

    def _parse_moment(self, data: bytes) -> float:
        """Return when an answered heartbeat was sent; ValueError for one that cannot have been."""
        if len(data) != MOMENT.size:
            raise ValueError(f"a heartbeat of {len(data)} bytes")
        moment = float(MOMENT.unpack(data)[0])
        if not self._answered <= moment <= time.clock_gettime(CLOCK):
            raise ValueError(f"a heartbeat of another time: {moment}")
        return moment

    def _end(self, *, ended: bool) -> None:
        self._ended.set()
        with self._lock:
            self.over = True
        if not ended:  # or it would never end
            self._channel.close()
        status = self._channel.wait() if ended and (self._streams or not self.greeted) else LOST
        self._status = status
        stderr = self._channel.read_last_stderr() if ended else self._channel.stderr
        for stream in tuple(self._streams.values()):
            stream.take(ERRORS, stderr.encode())
            stream.take(STATUS, b"%d" % (status or LOST))
        self._streams.clear()
        self._channel.close()


class Stream(Channel):
    """One program behind a multiplexer."""

    def __init__(self, multiplexer: MultiplexerClient, number: int) -> None:
        self.number = number
        self._multiplexer = multiplexer
        self._output: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._stderr_queue: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._started = threading.Event()
        self._status: int | None = None
        self._waiting = 0  # bytes of output that have not been received
        super().__init__()

    def take(self, kind: bytes, data: bytes) -> None:
        """Take a frame from the other end."""
        if kind == OUTPUT:
            self._waiting += len(data)
            if self._waiting > MAX_WAITING:
                self._stderr_queue.put(b"it printed more than could be read, and was stopped\n")
                self._status = FLOODED
                self.close()
                return
            self._output.put(data)
        elif kind == ERRORS:
            self._stderr_queue.put(data)
        elif kind == STATUS:
            self._status = self._status or _parse_status(data)
            self._output.put(b"")
            self._stderr_queue.put(b"")
        self._started.set()

    def await_start(self, timeout: float) -> None:
        """Return once the program runs."""
        if not self._started.wait(timeout):
            self.close()
            raise ChannelTimeoutError

    def send(self, data: bytes) -> None:
        """Write `data` to the program's standard input."""
        if self._status is not None:
            raise BrokenPipeError
        self._multiplexer.write(self.number, INPUT, data)

    def end_input(self) -> None:
        """Close the program's standard input."""
        self._multiplexer.write(self.number, END)

    def receive(self, deadline: float | None = None) -> bytes:
        """Return the next bytes of standard output, or ``b""`` at its end."""
        wait = None if deadline is None else max(deadline - time.monotonic(), 0.001)
        try:
            piece = self._output.get(timeout=wait)
        except queue.Empty as error:
            raise ChannelTimeoutError from error
        self._waiting -= len(piece)
        if not piece:
            self._output.put(b"")  # for the next call
        return piece

    def wait(self) -> int:
        """Return the exit status."""
        while self.receive():
            pass
        return LOST if self._status is None else self._status

    def close(self) -> None:
        """Drop the program at once; it sees its standard input end."""
        self._multiplexer.forget(self.number)
        self._output.put(b"")
        self._stderr_queue.put(b"")

    def _read_stderr(self) -> bytes:
        return self._stderr_queue.get()


def _parse_status(data: bytes) -> int:
    status = parse_digits(data.decode(errors="replace"))
    return LOST if status is None else status
