"""A link probe that ends, breaks off or lies is an error of its host."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest

from sparkfleet.errors import CommandError, UnreachableError
from sparkfleet.links import Fabric
from sparkfleet.links.answers import (
    parse_flows,
    parse_listening,
    parse_perftest,
    parse_ports,
    parse_reach_report,
)
from sparkfleet.links.reachability.arp_flux import find_substitutes
from sparkfleet.links.reachability.misplugged import find_far_ends
from sparkfleet.links.reachability.plan import FREE_PORT, ReachReport, plan_reachability
from sparkfleet.links.reachability.session import Parser, Session
from sparkfleet.links.reachability.verdicts import judge_reach
from sparkfleet.model import Host
from sparkfleet.remote.answers import SHAPE_ERRORS
from sparkfleet.remote.channel import ChannelTimeoutError
from tests import gb10
from tests.budget import limit_cpu_time


@cache
def _pair() -> tuple[Fabric, tuple[Host, ...]]:
    cluster = gb10.Cluster(*gb10.pair())
    return cluster.fabric, tuple(cluster.hosts)


def _session(lines: Any, *, lost: bool = False, stderr: str = "") -> Session[Any]:
    connection: Any = SimpleNamespace(host=Host(name="spark-02"), is_lost=lambda: lost)
    channel: Any = SimpleNamespace(send=lambda _: None, stderr=stderr)
    return Session(connection=connection, first={}, channel=channel, lines=lines)


def test_a_connection_that_breaks_off_is_named() -> None:
    with pytest.raises(UnreachableError, match="lost while its links were probed") as caught:
        _session(iter(()), lost=True).send_request({}, dict)
    assert (caught.value.host, caught.value.exit_code) == ("spark-02", 4)


@pytest.mark.parametrize(
    ("stderr", "expected"),
    [("", "it exited before it answered"), ("Traceback\nOSError: x\n", "OSError: x")],
)
def test_a_probe_that_ends_says_why(stderr: str, expected: str) -> None:
    with pytest.raises(CommandError, match=f"the link probe on this host stopped: {expected}"):
        _session(iter(()), stderr=stderr).send_request({}, dict)


def test_a_probe_that_hangs_says_so() -> None:
    def hang() -> Any:
        raise ChannelTimeoutError("no answer within 5 s")
        yield

    with pytest.raises(CommandError, match="stopped: no answer within 5 s"):
        _session(hang()).send_request({}, dict)


@pytest.mark.parametrize("line", [b"5", b"null", b"x", b'"a"', b"[1]", b"[" * 90_000, b"", b"\xff"])
def test_an_answer_of_another_shape_names_the_host(line: bytes) -> None:
    with pytest.raises(CommandError, match="link probe program has an unknown shape") as caught:
        _session(iter([line])).send_request({}, dict)
    assert caught.value.host == "spark-02"


SPARK = SimpleNamespace(calls=(0,), pings=(0,))
LISTENING: dict[str, Any] = {
    "listening": [["10.0.0.1", 6379, 6379]],
    "busy": [["10.0.0.1", 0, "Address in use"]],
}
PING = {"sent": 5, "received": 5, "last": 5, "complete": True, "why": ""}
REACHED: dict[str, Any] = {
    "connections": [{"connected": True, "answer": "00", "unpinned": True}],
    "pings": [{"small": PING, "large": {**PING, "sent": None}, "source": "10.0.0.1"}],
    "counters": {"rocep1s0f0": {"symbol_error": 1}},
    "ends": {"enp1s0f0np0": ["5c:a2:e1:f4:02:12"]},
    "neighbours": [["enp1s0f0np0", "10.0.0.2", "5c:a2:e1:f4:02:12"]],
}
SENT: dict[str, Any] = {"sent": [{"bytes": 10, "seconds": 1.5, "need": 0.1, "idle": 0.5}]}


def _parse_reach(answer: Any) -> object:
    role: Any = SPARK
    heard = parse_listening(LISTENING)
    return parse_reach_report(answer, role=role, nonce="", listening=heard)


ASKED: dict[str, tuple[Parser[Any], dict[str, Any]]] = {
    "listening": (parse_listening, LISTENING),
    "reach": (_parse_reach, REACHED),
    "perftest": (parse_perftest, {"perftest": True}),
    "ports": (lambda answer: parse_ports(answer, count=1), {"ports": [4000]}),
    "tcp": (lambda answer: parse_flows(answer, kind="tcp", count=1), SENT),
    "rdma": (lambda answer: parse_flows(answer, kind="rdma", count=1), {"sent": [{"text": ""}]}),
    "echo": (
        lambda answer: parse_flows(answer, kind="echo", count=1),
        {"sent": [{"microseconds": 3.5}]},
    ),
}


def _list_changes(tree: Any) -> Iterator[Any]:
    """Yield a tree with each of its parts replaced by a value of each other kind."""
    yield from (None, [], {}, [{}], {"": None}, "", 1.5, -1, float("inf"), [[]], [1, 2, 3, 4])
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield {name: item for name, item in tree.items() if name != key}
            yield from ({**tree, key: changed} for changed in _list_changes(value))
    if isinstance(tree, list):
        yield [*tree, *tree]
        for at, value in enumerate(tree):
            yield from ([*tree[:at], changed, *tree[at + 1 :]] for changed in _list_changes(value))


@pytest.mark.parametrize("asked", ASKED)
def test_each_part_of_an_answer_is_checked(asked: str) -> None:
    parser, answer = ASKED[asked]
    good = repr(_session(iter([json.dumps(answer).encode()])).send_request({}, parser))
    refused = 0
    for changed in _list_changes(answer):
        line = json.dumps(changed).encode()
        try:
            with limit_cpu_time():
                assert repr(_session(iter([line])).send_request({}, parser))
        except CommandError:  # any other is a bug
            refused += 1
    assert good
    assert refused


def test_ports_of_the_executor_are_left_to_a_run_that_is_about_to_take_them() -> None:
    usual, left = (plan_reachability(*_pair(), named_ports=named) for named in (True, False))
    assert {port for _, port in usual["spark-1"].listen} > {FREE_PORT}
    for role in left.values():
        assert {port for _, port in role.listen} == {call.port for call in role.calls}
        assert {call.port for call in role.calls} == {FREE_PORT}
        assert role.pings == usual[role.host].pings


def test_a_lying_peer_is_judged_or_named() -> None:
    roles = plan_reachability(*_pair())
    role = roles["spark-2"]
    listening = {"listening": [[*place, 4000] for place in role.listen], "busy": []}
    honest = {
        "connections": [REACHED["connections"][0] for _ in role.calls],
        "pings": [REACHED["pings"][0] for _ in role.pings],
        **{name: REACHED[name] for name in ("counters", "ends", "neighbours")},
    }
    other = ReachReport(
        nonce="",
        actual=parse_listening(listening).actual,
        connections=tuple({"connected": False, "why": "x"} for _ in roles["spark-1"].calls),
        pings=tuple(REACHED["pings"][0] for _ in roles["spark-1"].pings),
    )
    for changed in _list_changes(honest):
        try:
            report = parse_reach_report(
                changed, role=role, nonce="", listening=parse_listening(listening)
            )
        except SHAPE_ERRORS:
            continue
        reports = {"spark-1": other, "spark-2": report}
        ends = find_far_ends(_pair()[0], reports)
        assert judge_reach(roles, reports, ends, find_substitutes(_pair()[0], reports))
