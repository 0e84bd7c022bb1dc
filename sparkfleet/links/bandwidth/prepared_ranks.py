"""Programs of a collective that have imported torch before they are asked."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from sparkfleet.commands import build_script_command
from sparkfleet.errors import CommandError
from sparkfleet.remote.answers import parse_answer
from sparkfleet.remote.channel import ChannelTimeoutError
from sparkfleet.remote.login_errors import build_lost_error

if TYPE_CHECKING:
    from sparkfleet.remote.channel import Channel
    from sparkfleet.remote.connection import Connection

T = TypeVar("T")
PROGRAM = "fabric/collective"
IMPORT_LIMIT = 60.0  # seconds to import torch from a cold disk


@dataclass(slots=True, kw_only=True)
class PreparedRank:
    """The program of one rank, run by the command `python`; it has its request once `asked`."""

    python: tuple[str, ...]
    channel: Channel
    asked: bool = False

    def ask(self, request: Mapping[str, Any]) -> None:
        """Send the request, without waiting for anything."""
        self.channel.feed([json.dumps(request, separators=(",", ":")).encode() + b"\n"])
        self.asked = True

    def is_ready(self) -> bool:
        """Wait until torch is imported; return whether the program still runs then.

        Do not call it on a program that was already asked: this may consume its answer.
        """
        try:
            lines = self.channel.lines(time.monotonic() + IMPORT_LIMIT)
            return any(line.startswith(b'{"ready"') for line in lines)
        except (ChannelTimeoutError, OSError):
            return False

    def query(
        self,
        connection: Connection,
        request: Mapping[str, Any],
        parser: Callable[[Any], T],
        *,
        timeout: float,
    ) -> T:
        """Ask, and return what `parser` makes of the answer, as `Connection.query` does."""
        if not self.asked:
            self.ask(request)
        result = self.channel.finish(timeout)
        if connection.is_lost():
            raise build_lost_error(connection.host, "while a collective ran")
        answer = connection.parse_answer(PROGRAM, result)
        return parse_answer(parser, answer, connection.host.name, PROGRAM)

    def close(self) -> None:
        """Let the program end."""
        self.channel.close()


def prepare_rank(connection: Connection, python: Sequence[str]) -> PreparedRank | None:
    """Start the program with `python`, without waiting for it; None where it cannot be started."""
    command = build_script_command(PROGRAM, {"prepare": True}, python=python)
    try:
        channel = connection.open(command)
    except CommandError:
        return None
    with contextlib.suppress(OSError):  # it has ended, and will not be ready
        channel.send(command.stdin)
    return PreparedRank(python=tuple(python), channel=channel)


def ask_ranks(
    prepared: Mapping[str, PreparedRank],
    pythons: Mapping[str, Sequence[str]],
    requests: Mapping[str, Mapping[str, Any]],
) -> bool:
    """Send each program its request; return false, with none sent, unless all hosts have theirs."""
    if not _fits(prepared, pythons):
        return False
    for name, rank in prepared.items():
        rank.ask(requests[name])
    return True


def select_ready_ranks(
    prepared: Mapping[str, PreparedRank], pythons: Mapping[str, Sequence[str]]
) -> Mapping[str, PreparedRank]:
    """Return the prepared ranks if each host has one that is ready or asked, else close them all.

    One that has ended would leave its peers waiting.
    """
    if _fits(prepared, pythons) and all(
        rank.asked or rank.is_ready() for rank in prepared.values()
    ):
        return prepared
    close_ranks(prepared)
    return {}


def close_ranks(prepared: Mapping[str, PreparedRank]) -> None:
    """Let all programs end."""
    for rank in prepared.values():
        rank.close()


def _fits(prepared: Mapping[str, PreparedRank], pythons: Mapping[str, Sequence[str]]) -> bool:
    """Return whether each host has a program, of the Python that `pythons` says."""
    return {name: rank.python for name, rank in prepared.items()} == {
        name: tuple(python) for name, python in pythons.items()
    }
