"""Talking with a program on a host that works for long, and says how far it is."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

from sparkfleet.commands import script
from sparkfleet.errors import CommandError
from sparkfleet.remote.channel import ChannelTimeoutError, Result
from sparkfleet.remote.link import Link

NOTHING = b"{}\n"  # the request with which `script` ends, and ours takes its place
SILENCE = 120.0  # s; a program that works says so each second

Told = Callable[[Mapping[str, int]], None]
"""Takes what a program says about its progress: numbers by name."""


def unheard(_: Mapping[str, int]) -> None:
    """Take what a program says, and drop it."""


class Conversation:
    """A running on-host program; it starts at once, also where its request comes later (`ask`).

    It has a channel of its own for what it is sent, unless that is `little`.
    """

    def __init__(
        self,
        link: Link,
        program: str,
        request: Mapping[str, Any] | None = None,
        *,
        payload: Iterable[bytes] | None = None,
        little: bool = False,
    ) -> None:
        self.link = link
        self.program = program
        self._ended = threading.Event()
        self._asked: queue.SimpleQueue[Iterable[bytes]] = queue.SimpleQueue()
        command = script(program, {})
        self._channel = link.open(command, alone=not little)
        self._channel.feed(self._input(command.stdin.removesuffix(NOTHING)))
        if request is not None:
            self.ask(request, payload=payload)
        self._lines = self._channel.lines(silence=SILENCE)
        self._last = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _input(self, source: bytes) -> Iterator[bytes]:
        yield source
        yield from self._asked.get()

    def ask(self, request: Mapping[str, Any], *, payload: Iterable[bytes] | None = None) -> None:
        """Send the request. Without `payload` the program lives no longer than we listen to it."""
        self._asked.put(self._words(json.dumps(request).encode() + b"\n", payload))

    def _words(self, line: bytes, payload: Iterable[bytes] | None) -> Iterator[bytes]:
        yield line
        if payload is None:
            self._ended.wait()
        else:
            yield from payload

    def progress(self) -> Iterator[Mapping[str, int]]:
        """Yield what it says about its progress, until it has nothing more to say.

        Raises CommandError if it says nothing at all for two minutes.
        """
        try:
            for line in self._lines:
                if line.startswith(b'{"progress"'):
                    yield json.loads(line)["progress"]
                else:
                    self._last = line
        except ChannelTimeoutError:
            raise CommandError(
                f"the {self.program} program said nothing for {SILENCE:.0f} s",
                host=self.link.host.name,
                hint="is its disk stuck? look at dmesg there",
            ) from None

    def answer(self, told: Told = unheard) -> dict[str, Any]:
        """Listen to its end and return its answer; raises CommandError if it fails or refuses."""
        for progress in self.progress():
            told(progress)
        status = self._channel.wait()
        result = Result(returncode=status, stdout=self._last, stderr=self._channel.stderr)
        return self.link.answer(self.program, result)

    def close(self) -> None:
        """Drop it; it ends if it has not ended yet."""
        self._ended.set()
        self._asked.put(())
        self._channel.close()
