"""A session with a program on a host that runs for long and reports its progress."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self, TypeVar

from sparkfleet.commands import build_script_command
from sparkfleet.errors import CommandError
from sparkfleet.remote.answers import parse_answer
from sparkfleet.remote.channel import ChannelTimeoutError, Result
from sparkfleet.remote.connection import Connection
from sparkfleet.values import convert_integer, convert_mapping, parse_json

T = TypeVar("T")
SILENCE_LIMIT = 120.0  # seconds; a program that works reports each second

ProgressCallback = Callable[[Mapping[str, int]], None]
"""Called with the progress that a program reports: numbers by name."""


def ignore_progress(_: Mapping[str, int]) -> None:
    """Ignore the progress of a program."""


class ProgramSession:
    """A running on-host program; it starts at once, even if its request is sent later.

    It has a channel of its own for what it is sent, unless that is `little`.
    """

    def __init__(
        self,
        connection: Connection,
        program: str,
        request: Mapping[str, Any] | None = None,
        *,
        payload: Iterable[bytes] | None = None,
        little: bool = False,
    ) -> None:
        self.connection = connection
        self.program = program
        self._ended = threading.Event()
        self._requests: queue.SimpleQueue[Iterable[bytes]] = queue.SimpleQueue()
        command = build_script_command(program, None)
        self._channel = connection.open(command, alone=not little)
        self._channel.feed(self._input())
        if request is not None:
            self.send_request(request, payload=payload)
        self._lines = self._channel.lines(silence=SILENCE_LIMIT)
        self._last = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _input(self) -> Iterator[bytes]:
        yield from self._requests.get()

    def send_request(
        self, request: Mapping[str, Any], *, payload: Iterable[bytes] | None = None
    ) -> None:
        """Send the request. Without `payload` the program ends with this session."""
        self._requests.put(self._request_stream(json.dumps(request).encode() + b"\n", payload))

    def _request_stream(self, line: bytes, payload: Iterable[bytes] | None) -> Iterator[bytes]:
        yield line
        if payload is None:
            self._ended.wait()
        else:
            yield from payload

    def wait_for_port(self) -> int:
        """Return the port of the program, which it reports first; raises CommandError."""
        offer = next(self.progress(), None)
        if offer is None:
            self.answer()
            raise CommandError(
                f"the {self.program} program exited before it opened its port",
                host=self.connection.host.name,
            )
        return self._parse(
            lambda said: convert_integer(said["port"], minimum=1, maximum=65535), offer
        )

    def _parse(self, parser: Callable[[Any], T], answer: Any) -> T:
        return parse_answer(parser, answer, self.connection.host.name, self.program)

    def progress(self) -> Iterator[Mapping[str, int]]:
        """Yield the progress that it reports, until it ends.

        Raises CommandError if it sends nothing for two minutes.
        """
        try:
            for line in self._lines:
                if line.startswith(b'{"progress"'):
                    yield self._parse(_parse_progress, line)
                else:
                    self._last = line
        except ChannelTimeoutError:
            raise CommandError(
                f"the {self.program} program sent nothing for {SILENCE_LIMIT:.0f} s",
                host=self.connection.host.name,
                hint="is its disk stuck? on that host: sudo dmesg | tail",
            ) from None

    def answer(self, on_progress: ProgressCallback = ignore_progress) -> dict[str, Any]:
        """Listen to its end and return its answer; raises CommandError if it fails or refuses."""
        for progress in self.progress():
            on_progress(progress)
        status = self._channel.wait()
        result = Result(returncode=status, stdout=self._last, stderr=self._channel.stderr)
        return self.connection.parse_answer(self.program, result)

    def query(
        self, parser: Callable[[Any], T], on_progress: ProgressCallback = ignore_progress
    ) -> T:
        """Listen to its end and return what `parser` makes of its answer; raises CommandError."""
        return self._parse(parser, self.answer(on_progress))

    def close(self) -> None:
        """Drop it; it ends if it has not ended yet."""
        self._ended.set()
        self._requests.put(())
        self._channel.close()


def _parse_progress(line: bytes) -> Mapping[str, int]:
    said = convert_mapping(parse_json(line)["progress"])
    return {name: convert_integer(count, minimum=0, strict=True) for name, count in said.items()}
