"""A link probe that ends, breaks off or lies is an error of its host."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sparkfleet.errors import CommandError, UnreachableError
from sparkfleet.links.reachability.session import Session
from sparkfleet.model import Host
from sparkfleet.remote.channel import ChannelTimeoutError


def _session(lines: Any, *, lost: bool = False, stderr: str = "") -> Session:
    connection: Any = SimpleNamespace(host=Host(name="spark-02"), is_lost=lambda: lost)
    channel: Any = SimpleNamespace(send=lambda _: None, stderr=stderr)
    return Session(connection=connection, first={}, channel=channel, lines=lines)


def test_a_connection_that_breaks_off_is_named() -> None:
    with pytest.raises(UnreachableError, match="lost while its links were probed") as caught:
        _session(iter(()), lost=True).send_request({})
    assert (caught.value.host, caught.value.exit_code) == ("spark-02", 4)


@pytest.mark.parametrize(
    ("stderr", "told"),
    [("", "it ended before it answered"), ("Traceback\nOSError: x\n", "OSError: x")],
)
def test_a_probe_that_ends_says_why(stderr: str, told: str) -> None:
    with pytest.raises(CommandError, match=f"the link probe on this host stopped: {told}"):
        _session(iter(()), stderr=stderr).send_request({})


def test_a_probe_that_hangs_says_so() -> None:
    def hang() -> Any:
        raise ChannelTimeoutError("no answer within 5 s")
        yield

    with pytest.raises(CommandError, match="stopped: no answer within 5 s"):
        _session(hang()).send_request({})


@pytest.mark.parametrize("line", [b"5", b"null", b"x", b'"a"', b"[1]", b"[" * 90_000, b"", b"\xff"])
def test_an_answer_of_another_shape_names_the_host(line: bytes) -> None:
    with pytest.raises(CommandError, match="link probe program has an unknown shape") as caught:
        _session(iter([line])).send_request({})
    assert caught.value.host == "spark-02"
