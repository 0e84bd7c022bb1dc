"""Frames of a host, cut and changed: read, or the channel ends."""

from __future__ import annotations

import contextlib
import random
import struct
import threading
import time

import pytest
from hypothesis import given, settings

from sparkfleet.onhost.shared.labels import FRAMES_MARK
from sparkfleet.remote.channel import Channel, ChannelTimeoutError, Result
from sparkfleet.remote.multiplexer import (
    CLOCK,
    ERRORS,
    HEADER,
    HEARTBEAT,
    MOMENT,
    OUTPUT,
    START,
    STATUS,
    MultiplexerClient,
    NotStartedError,
)
from tests.budget import MANY, limit_cpu_time, scale_examples
from tests.mutations import NUMBERS, create_chance

PATIENCE = 60.0  # seconds
NOW = b"<moment>"  # as long as a moment
NUMBER = struct.Struct(">I")


class RecordedChannel(Channel):
    """A channel that gives these pieces once a program is asked for, and ends."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = [piece for piece in pieces if piece]
        self._asked = threading.Event()
        super().__init__()

    def send(self, data: bytes) -> None:
        if HEADER.unpack_from(data)[1] == START:
            self._asked.set()

    def end_input(self) -> None: ...

    def receive(self, deadline: float | None = None) -> bytes:
        self._asked.wait(PATIENCE)
        piece = self._pieces.pop(0) if self._pieces else b""
        return piece.replace(NOW, MOMENT.pack(time.clock_gettime(CLOCK)))

    def wait(self) -> int:
        return 1

    def close(self) -> None:
        self._pieces.clear()
        self._asked.set()

    def _read_stderr(self) -> bytes:
        return b""


def _frame(kind: bytes, data: bytes = b"", number: int = 0) -> bytes:
    return HEADER.pack(number, kind, len(data)) + data


def _list_parts() -> list[bytes]:
    """Return what a host sends whose login shell prints a word, and whose program prints a line."""
    frames = [_frame(b"a"), _frame(HEARTBEAT, NOW), _frame(OUTPUT, b'{"a": 1}\n')]
    return [b"Welcome\n", FRAMES_MARK, *frames, _frame(ERRORS, b"why\n"), _frame(STATUS, b"0")]


def _mutate(chance: random.Random) -> bytes:
    parts = _list_parts()
    at = chance.randrange(len(parts))
    part = parts[at]
    odd = chance.choice((b"", b"1" * 5000, b"-1", b"\0" * 8, b"\xff" * 8, b"\x7f\xf0" + b"\0" * 6))
    kind = chance.choice((b"k", b"o", b"r", b"x", b"a", b"z", b"\0"))
    length = NUMBER.pack(chance.choice((0, 1, 1 << 20, (1 << 20) + 1, (1 << 32) - 1)))
    changes = (
        part[: chance.randrange(len(part) + 1)],
        part * chance.choice((2, 9)),
        FRAMES_MARK[: chance.randrange(len(FRAMES_MARK))] + part,
        part[:5] + length + part[9:],
        _frame(kind, odd, chance.choice((0, 0, 1, (1 << 32) - 1))),
        bytes(chance.randrange(256) for _ in range(chance.choice((1, 9, 70_000)))),
    )
    parts[at] = chance.choice(changes)
    if chance.random() < 1 / 4:
        chance.shuffle(parts)
    sent = b"".join(parts)
    return sent[: chance.randrange(len(sent) + 1)] if chance.random() < 1 / 4 else sent


def _run_program(*pieces: bytes) -> Result:
    client = MultiplexerClient(RecordedChannel(*pieces))
    try:
        return client.start("program", b"archive", timeout=PATIENCE).finish(PATIENCE)
    finally:
        client.close()
        client._reader.join(PATIENCE)
        assert not client._reader.is_alive()
        assert client.over


@pytest.fixture
def crashes(monkeypatch: pytest.MonkeyPatch) -> list[threading.ExceptHookArgs]:
    """Return what ends a thread by an exception."""
    found: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", found.append)
    return found


def test_a_mark_and_frames_in_any_pieces_are_read() -> None:
    word, mark, *frames = _list_parts()
    greeting, rest = word + mark, b"".join(frames)
    cuts = [(greeting[:cut], greeting[cut:], rest) for cut in range(len(greeting))]
    cuts += [(greeting, rest[:cut], rest[cut:]) for cut in range(rest.index(NOW))]
    for pieces in cuts:
        result = _run_program(*pieces)
        assert (result.returncode, result.stdout) == (0, b'{"a": 1}\n')


@pytest.mark.parametrize("moment", [b"", b"\0" * 7, b"\0" * 9, b"\x7f\xf8" + b"\0" * 6])
def test_a_heartbeat_that_was_never_sent_ends_the_channel(
    crashes: list[threading.ExceptHookArgs], moment: bytes
) -> None:
    result = _run_program(
        FRAMES_MARK, _frame(b"a"), _frame(HEARTBEAT, moment), _frame(OUTPUT, b"x")
    )
    assert result.returncode
    assert not crashes


@pytest.mark.timeout(7200)
@settings(max_examples=scale_examples(40, thorough=MANY), deadline=None)
@given(NUMBERS)
def test_changed_frames_are_read_or_end_the_channel(number: int) -> None:
    chance = create_chance(number)
    sent = _mutate(chance)
    cut = chance.randrange(len(sent) + 1)
    found: list[threading.ExceptHookArgs] = []
    with pytest.MonkeyPatch.context() as patch, limit_cpu_time():
        patch.setattr(threading, "excepthook", found.append)
        with contextlib.suppress(ChannelTimeoutError, NotStartedError, OSError):
            assert _run_program(sent[:cut], sent[cut:]).returncode >= 0
    assert not found
