"""A program that runs on every host at the same time and answers line by line."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sparkfleet.commands import build_script_command
from sparkfleet.errors import CommandError
from sparkfleet.model import Host
from sparkfleet.remote.answers import parse_answer
from sparkfleet.remote.channel import ChannelTimeoutError
from sparkfleet.remote.login_errors import build_lost_error
from sparkfleet.values import parse_json

if TYPE_CHECKING:
    from sparkfleet.remote.channel import Channel
    from sparkfleet.remote.connection import Connection
    from sparkfleet.remote.pool import ConnectionPool

T = TypeVar("T")
U = TypeVar("U")
Parser = Callable[[Mapping[str, Any]], T]
"""Makes a value from an answer; raises InvalidValueError or LookupError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session(Generic[T]):
    """The program on one host; `first` is its answer to the request that it was started with."""

    connection: Connection
    first: T
    channel: Channel
    lines: Iterator[bytes]

    def send_request(self, request: Mapping[str, Any], parser: Parser[U]) -> U:
        """Send a request and return its answer; raises CommandError, UnreachableError."""
        data = json.dumps(request, separators=(",", ":")).encode() + b"\n"
        line = _exchange_line(self.connection, self.channel, self.lines, data)
        return _parse_line(self.connection, line, parser)


@contextmanager
def open_sessions(
    pool: ConnectionPool,
    program: str,
    requests: Mapping[str, Mapping[str, Any]],
    parser: Parser[T],
    *,
    hosts: Sequence[Host],
) -> Iterator[Mapping[str, Session[T]]]:
    """Run `onhost/<program>.py` on `hosts`, one channel each, until the block ends.

    `parser` reads their first answers. Every request says in `timeout`, seconds, how long the
    program may take as a whole. Raises the SparkfleetError of a host that did not take part.
    """
    opened: list[Channel] = []

    def start(connection: Connection) -> Session[T]:
        request = requests[connection.host.name]
        command = build_script_command(program, request)
        channel = connection.open(command)
        opened.append(channel)
        lines = channel.lines(time.monotonic() + request["timeout"])
        line = _exchange_line(connection, channel, lines, command.stdin)
        first = _parse_line(connection, line, parser)
        return Session(connection=connection, first=first, channel=channel, lines=lines)

    try:
        yield pool.map(start, hosts).all()
    finally:
        for channel in opened:
            channel.close()


def _exchange_line(
    connection: Connection, channel: Channel, lines: Iterator[bytes], data: bytes
) -> bytes:
    reason = "it exited before it answered"
    try:
        channel.send(data)
        if (line := next(lines, None)) is not None:
            return line
    except (OSError, ChannelTimeoutError) as error:
        reason = str(error)
    if connection.is_lost():
        raise build_lost_error(connection.host, "while its links were probed")
    printed = channel.stderr.strip().splitlines()[-1:] or [reason]
    raise CommandError(
        f"the link probe on this host stopped: {printed[0]}", host=connection.host.name
    )


def _parse_line(connection: Connection, line: bytes, parser: Parser[T]) -> T:
    return parse_answer(
        lambda line: parser(dict(parse_json(line))), line, connection.host.name, "link probe"
    )
