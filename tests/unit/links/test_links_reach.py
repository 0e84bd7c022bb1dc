from __future__ import annotations

import hashlib
import hmac
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import IPv4Interface
from typing import Any

import pytest

from sparkfleet import links
from sparkfleet.facts.network import Netdev
from sparkfleet.links import Fabric, Rail, Topology
from sparkfleet.links.reachability import active_gate
from sparkfleet.links.reachability.misplugged import list_port_macs
from sparkfleet.links.reachability.plan import ReachReport, ReachRole
from sparkfleet.links.reachability.session import open_sessions
from sparkfleet.links.reachability.verdicts import count_lost_packets
from sparkfleet.model import Host, Severity, Value, Verdict
from sparkfleet.onhost.fabric import reach
from sparkfleet.remote.local import LocalConnection
from sparkfleet.remote.pool import ConnectionPool
from tests.gb10 import F1, P2F1, Cluster, pair, ring, switch

NONCE = "n"


def _ping(sent: int | None, received: int, last: int | None = None, *, why: str = "") -> Any:
    """Return an answer of ping, which wanted 50 packets; `last` is its last one if not said."""
    last = (sent or 0) if last is None else last
    full = received >= 50
    return {"sent": sent, "received": received, "last": last, "complete": full, "why": why}


GOOD = _ping(50, 50)
GOOD_PING = {"small": GOOD, "large": GOOD}


def _proof(role: ReachRole) -> str:
    return hmac.new(role.token.encode(), NONCE.encode(), hashlib.sha256).hexdigest()


def healthy_reports(roles: Mapping[str, ReachRole]) -> dict[str, ReachReport]:
    """Return what each host would report if all were well."""
    return {
        name: ReachReport(
            nonce=NONCE,
            actual={(address, port): port or 40000 for address, port in role.listen},
            connections=tuple(
                {"connected": True, "answer": _proof(roles[call.to.host])} for call in role.calls
            ),
            pings=(GOOD_PING,) * len(role.pings),
        )
        for name, role in roles.items()
    }


@pytest.fixture
def roles() -> Mapping[str, ReachRole]:
    cluster = Cluster(*pair())
    return links.plan_reachability(cluster.fabric, cluster.hosts)


def _changed(
    roles: Mapping[str, ReachRole], change: Mapping[tuple[str, int], dict[str, Any]]
) -> dict[str, ReachReport]:
    """Return healthy reports in which spark-1's calls to (address, port) ended otherwise."""
    reports = healthy_reports(roles)
    answers = tuple(
        change.get((str(call.to.ip), call.port), answer)
        for call, answer in zip(roles["spark-1"].calls, reports["spark-1"].connections, strict=True)
    )
    reports["spark-1"] = replace(reports["spark-1"], connections=answers)
    return reports


def _bad(verdicts: tuple[Verdict, ...]) -> list[Verdict]:
    return [x for x in verdicts if x.severity is not Severity.OK]


def test_a_healthy_pair_gets_one_ok_for_each_host(roles: Mapping[str, ReachRole]) -> None:
    verdicts = links.judge_reach(roles, healthy_reports(roles))
    assert [(x.host, x.check) for x in verdicts] == [
        ("spark-1", "link.reach"),
        ("spark-2", "link.reach"),
    ]
    assert "12 connections and 2 pings to spark-2 passed" in verdicts[0].seen


def test_a_firewall_on_one_port_names_host_interface_and_port(
    roles: Mapping[str, ReachRole],
) -> None:
    silent = {"connected": False, "why": "timed out"}
    (verdict,) = _bad(links.judge_reach(roles, _changed(roles, {("192.168.100.2", 6379): silent})))
    assert (verdict.check, verdict.host) == ("link.firewall", "spark-2")
    assert verdict.subject == f"{F1} 192.168.100.2"
    assert verdict.expected == "spark-1 to reach port 6379"
    assert verdict.fix == f"let the fabric through the firewall: sudo ufw allow in on {F1}"


def test_a_firewall_on_the_ports_that_the_kernel_draws(roles: Mapping[str, ReachRole]) -> None:
    silent = {"connected": False, "why": "timed out"}
    (verdict,) = _bad(links.judge_reach(roles, _changed(roles, {("192.168.101.2", 0): silent})))
    assert verdict.subject == f"{P2F1} 192.168.101.2"
    assert "ports that the kernel chooses for NCCL and gloo" in verdict.expected


def test_another_node_behind_the_address_is_named(roles: Mapping[str, ReachRole]) -> None:
    own = {"connected": True, "answer": _proof(roles["spark-1"])}
    (verdict,) = _bad(links.judge_reach(roles, _changed(roles, {("192.168.100.2", 6379): own})))
    assert (verdict.check, verdict.expected) == ("link.identity", "spark-2 behind 192.168.100.2")
    assert verdict.seen == "an answer from spark-1"


def test_a_stranger_behind_the_address_is_reported(roles: Mapping[str, ReachRole]) -> None:
    hello = {"connected": True, "answer": "SSH-2.0-OpenSSH_9.6"}
    (verdict,) = _bad(links.judge_reach(roles, _changed(roles, {("192.168.100.2", 0): hello})))
    assert verdict.seen == "an answer from a machine outside this cluster"


def test_of_another_node_behind_the_address_closed_ports_are_no_firewall(
    roles: Mapping[str, ReachRole],
) -> None:
    own = {"connected": True, "answer": _proof(roles["spark-1"])}
    refused = {"connected": False, "why": "Connection refused"}
    change = {("192.168.100.2", 6379): own, ("192.168.100.2", 0): refused}
    assert [x.check for x in _bad(links.judge_reach(roles, _changed(roles, change)))] == [
        "link.identity"
    ]


def test_a_service_that_holds_the_port_and_is_reached_passes(
    roles: Mapping[str, ReachRole],
) -> None:
    reports = _changed(roles, {("192.168.100.2", 6379): {"connected": True, "answer": "?"}})
    there = reports["spark-2"]
    free = {at: port for at, port in there.actual.items() if at != ("192.168.100.2", 6379)}
    busy = {("192.168.100.2", 6379): "Address already in use"}
    reports["spark-2"] = replace(there, actual=free, busy=busy)
    assert _bad(links.judge_reach(roles, reports)) == []


def test_a_port_that_is_held_and_not_reached(roles: Mapping[str, ReachRole]) -> None:
    refused = {"connected": False, "why": "Connection refused"}
    reports = _changed(roles, {("192.168.100.2", 6379): refused})
    busy = {("192.168.100.2", 6379): "Address already in use"}
    reports["spark-2"] = replace(reports["spark-2"], busy=busy)
    (verdict,) = _bad(links.judge_reach(roles, reports))
    assert (verdict.check, verdict.host) == ("link.port", "spark-2")
    assert verdict.subject == f"{F1} 192.168.100.2:6379"


def _with_ping(roles: Mapping[str, ReachRole], small: Any, large: Any) -> list[Verdict]:
    """Return the verdicts where spark-2's second rail was answered so."""
    reports = healthy_reports(roles)
    pings = (GOOD_PING, {"small": small, "large": large})
    reports["spark-2"] = replace(reports["spark-2"], pings=pings)
    return _bad(links.judge_reach(roles, reports))


def test_small_packets_that_pass_and_large_ones_that_do_not_are_a_black_hole(
    roles: Mapping[str, ReachRole],
) -> None:
    (verdict,) = _with_ping(roles, GOOD, _ping(4, 0, 0))
    assert (verdict.check, verdict.host) == ("link.mtu_path", "spark-2")
    assert verdict.subject == f"{P2F1} 192.168.101.2"
    assert verdict.seen == "no packet came back"
    assert verdict.refuses


def test_lost_packets_are_counted(roles: Mapping[str, ReachRole]) -> None:
    (verdict,) = _with_ping(roles, GOOD, _ping(88, 50))
    assert (verdict.check, verdict.host, verdict.seen) == ("link.loss", "spark-2", "38 of 88 lost")
    assert verdict.refuses


def test_a_link_that_loses_small_packets_says_nothing_about_the_mtu(
    roles: Mapping[str, ReachRole],
) -> None:
    (verdict,) = _with_ping(roles, _ping(5, 2), _ping(4, 0, 0))
    assert verdict.check == "link.loss"
    assert verdict.seen == "4 of 4 lost, of small packets 3 of 5"
    assert "verify the MTU again" in verdict.fix
    assert verdict.refuses


@pytest.mark.parametrize(
    ("sent", "received", "last", "missing"),
    [
        (50, 50, 50, 0),
        (51, 50, 50, 0),
        (53, 50, 50, 0),  # a busy host answers late, and ping has sent more by then
        (53, 50, 52, 1),
        (15, 15, 15, 0),
        (15, 14, 14, 0),
        (15, 13, 15, 1),
        (15, 9, 9, 5),  # the link went down: nothing came back until the deadline
        (None, 0, 0, 0),
    ],
)
def test_a_packet_under_way_is_not_lost(
    sent: int | None, received: int, last: int, missing: int
) -> None:
    assert count_lost_packets(_ping(sent, received, last)) == missing


@pytest.mark.parametrize(
    ("small", "fix"),
    [
        (_ping(None, 0, why="no such program"), "iputils-ping"),
        (_ping(5, 0, 0), "a firewall drops ICMP"),
    ],
)
def test_without_an_answer_to_ping_the_mtu_is_said_to_be_unproven(
    roles: Mapping[str, ReachRole], small: dict[str, Any], fix: str
) -> None:
    (verdict,) = _with_ping(roles, small, small)
    assert (verdict.check, verdict.severity) == ("link.ping", Severity.WARNING)
    assert fix in verdict.fix


def test_calls_that_fail_on_a_way_that_loses_packets_blame_no_firewall(
    roles: Mapping[str, ReachRole],
) -> None:
    silent = {"connected": False, "why": "timed out"}
    reports = _changed(roles, {("192.168.100.2", 6379): silent})
    some = {"small": GOOD, "large": _ping(20, 9)}
    reports["spark-1"] = replace(reports["spark-1"], pings=(some, GOOD_PING))
    assert [x.check for x in _bad(links.judge_reach(roles, reports))] == ["link.loss"]


def test_in_a_ring_hosts_call_their_neighbours_and_everybody_on_the_control_network() -> None:
    cluster = Cluster(*ring(4))
    role = links.plan_reachability(cluster.fabric, cluster.hosts)["spark-1"]
    peers = {(call.rail.name, call.to.host) for call in role.calls}
    assert ("enP7s7", "spark-3") in peers
    assert {to for name, to in peers if name != "enP7s7"} == {"spark-2", "spark-4"}


def test_pings_prove_every_rail_of_a_switch_both_ways() -> None:
    cluster = Cluster(*switch(4))
    roles = links.plan_reachability(cluster.fabric, cluster.hosts)
    pinged = {(p.to.host, p.to.name) for role in roles.values() for p in role.pings}
    pinging = {(p.rail.host, p.rail.name) for role in roles.values() for p in role.pings}
    assert pinged == pinging == {(h.name, rail) for h in cluster.hosts for rail in (F1, P2F1)}


@pytest.mark.parametrize(
    ("answer", "repeated"),
    [
        (_ping(52, 50), ["large"]),
        (_ping(15, 9), ["large"]),
        (_ping(50, 0, 0), ["large"]),  # a black hole is proven twice
        (_ping(51, 50), []),  # its verdict bears one
        (_ping(53, 50, 50), []),  # the last ones are under way
        (_ping(None, 0, why="no such program"), []),
    ],
)
def test_a_ping_that_lost_packets_is_repeated_alone_with_more(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], repeated: list[str]
) -> None:
    sent: list[tuple[str, int]] = []

    def run(source: str, address: str, *options: str, count: int) -> dict[str, Any]:
        sent.append((source, count))
        return {"again": True}

    monkeypatch.setattr(reach, "run_ping", run)
    way = {"address": "192.168.100.2", "size": 8972, "count": 50}
    first = {"small": _ping(5, 5), "large": answer, "source": "192.168.100.1"}
    second = reach.repeat_lossy_ping(way, first)
    assert [kind for kind in ("small", "large") if second[kind] == {"again": True}] == repeated
    assert sent == [("192.168.100.1", 200)] * len(repeated)


def test_a_ping_that_nothing_answered_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(reach, "run_ping")
    dead = {"small": _ping(5, 0, 0), "large": _ping(5, 0, 0), "source": "192.168.100.1"}
    assert reach.repeat_lossy_ping({}, dead) == dead


def _loopback(host: str, address: str) -> Rail:
    own = (IPv4Interface(f"{address}/24"),)
    return Rail(host=host, netdev=Netdev(name="lo", mtu=1500, carrier=True, addresses=own))


@pytest.mark.parametrize(
    ("connected", "mac", "doubtful"),
    [
        (True, "02:00:00:00:00:01", []),
        (True, "02:00:00:00:00:02", []),  # the twin on the same cable answers
        (True, "02:00:00:00:00:09", ["rail"]),
        (False, "02:00:00:00:00:01", ["rail"]),
    ],
    ids=["own", "twin", "another port", "no answer"],
)
def test_a_wire_is_asked_only_where_another_port_or_none_answered(
    connected: bool, mac: str, doubtful: list[str]
) -> None:
    macs = ["02:00:00:00:00:01", "02:00:00:00:00:02"]
    call = {"netdev": "rail", "address": "10.0.0.2", "macs": macs}
    answers = [{"connected": connected}]
    neighbours = [["rail", "10.0.0.2", mac], ["rail", "10.0.0.77", "02:00:00:00:00:77"]]
    assert reach.find_doubtful_netdevs([call], answers, neighbours) == doubtful


def test_the_rails_of_a_port_may_answer_for_each_other() -> None:
    fabric = Cluster(*pair()).fabric
    rails = {rail.name: rail for rail in (*fabric.rails["spark-1"], *fabric.spare["spark-1"])}
    own = [rails[F1].netdev.mac, rails[P2F1].netdev.mac]
    assert list_port_macs(fabric, rails[F1]) == own
    assert list_port_macs(fabric, rails[P2F1]) == own[::-1]
    assert list_port_macs(fabric, replace(rails[F1], port=None)) == own[:1]


def test_hosts_that_run_the_program_prove_each_other() -> None:
    rails = {name: (_loopback(name, f"127.7.0.{n}"),) for n, name in enumerate(("a", "b", "c"), 1)}
    fabric = Fabric(
        hosts=("a", "b", "c"),
        topology=Topology.SWITCH,
        rails=rails,
        spare=dict.fromkeys(rails, ()),
        network=rails["a"][0].network,
    )
    ports = {"ray_port": Value(data=17379), "ray_worker_port_min": Value(data=17400)}
    hosts = [Host(name=name, vars=ports) for name in rails]
    with ConnectionPool(LocalConnection) as pool:
        verdicts = links.run_active_gate(pool, fabric, hosts)
    assert [(x.host, x.check) for x in verdicts] == [(name, "link.reach") for name in rails]


def test_a_port_whose_holder_ends_meanwhile_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rails = {name: (_loopback(name, f"127.8.0.{n}"),) for n, name in enumerate(("a", "b"), 1)}
    fabric = Fabric(
        hosts=("a", "b"),
        topology=Topology.SWITCH,
        rails=rails,
        spare=dict.fromkeys(rails, ()),
        network=rails["a"][0].network,
    )
    opened = open_sessions
    times = 0

    @contextmanager
    def open_and_let_go(*args: Any, **options: Any) -> Iterator[Any]:
        nonlocal times
        times += 1
        with opened(*args, **options) as running:
            yield running
        holder.close()

    monkeypatch.setattr(active_gate, "open_sessions", open_and_let_go)
    with socket.socket() as holder, ConnectionPool(LocalConnection) as pool:
        holder.bind(("127.8.0.1", 0))  # and does not listen: a call is refused
        port = Value(data=holder.getsockname()[1])
        hosts = [Host(name=name, vars={"ray_port": port}) for name in rails]
        verdicts = links.run_active_gate(pool, fabric, hosts)
    assert [(x.host, x.check) for x in verdicts] == [(name, "link.reach") for name in rails]
    assert times >= 2


def test_in_a_large_cluster_second_rails_are_called_by_neighbours_only() -> None:
    cluster = Cluster(*switch(10))
    role = links.plan_reachability(cluster.fabric, cluster.hosts)["spark-1"]
    called = {rail: {x.to.host for x in role.calls if x.to.name == rail} for rail in (F1, P2F1)}
    assert called[F1] == {f"spark-{n}" for n in range(2, 11)}
    assert called[P2F1] == {"spark-2", "spark-10"}


def test_up_to_eight_hosts_call_everybody_on_every_rail() -> None:
    cluster = Cluster(*switch(8))
    roles = links.plan_reachability(cluster.fabric, cluster.hosts)
    called = {(call.to.host, call.to.name) for call in roles["spark-3"].calls}
    assert called == {(f"spark-{n}", dev) for n in (1, 2, 4, 5, 6, 7, 8) for dev in (F1, P2F1)}


def test_of_more_hosts_each_calls_the_head_its_neighbours_and_powers_of_two() -> None:
    cluster = Cluster(*switch(32))
    roles = links.plan_reachability(cluster.fabric, cluster.hosts)
    on_first = {call.to.host for call in roles["spark-10"].calls if call.to.name == F1}
    away = {n for leap in (1, 2, 4, 8, 16) for n in ((9 + leap) % 32, (9 - leap) % 32)}
    assert on_first == {f"spark-{n + 1}" for n in away | {0}}
    on_second = {call.to.host for call in roles["spark-10"].calls if call.to.name == P2F1}
    assert on_second == {"spark-9", "spark-11"}
    assert len({call.to.host for call in roles["spark-1"].calls}) == 31


def test_the_calls_of_32_hosts_fit_into_one_table_of_neighbours() -> None:
    cluster = Cluster(*switch(32))
    roles = links.plan_reachability(cluster.fabric, cluster.hosts)
    entries = {
        end
        for role in roles.values()
        for call in role.calls
        for end in ((call.rail.host, call.to.ip), (call.to.host, call.rail.ip))
    }
    assert len(entries) < 1024 / 2
