"""`links.apply`: a change is kept when the links are proven, and else undone on every host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import Any, Self, cast

import pytest

from sparkfleet.errors import CommandError, SparkfleetError, UnreachableError
from sparkfleet.facts import HostFacts
from sparkfleet.links.addressing import applying
from sparkfleet.links.addressing.applying import ApplyRun, apply_plan
from sparkfleet.links.addressing.gid_repair import find_gid_faults
from sparkfleet.links.addressing.host_network import HostNetwork
from sparkfleet.links.addressing.plan import FabricInputs, plan_fabric
from sparkfleet.model import Host, Verdict
from sparkfleet.remote.pool import Answers, ConnectionPool
from sparkfleet.verdicts import error, ok, warning
from tests.gb10 import F1, P2F1, Cluster, Spark, pair

HOSTS = ("spark-1", "spark-2")
SERVERS = {"spark-1": "192.168.1.1", "spark-2": "192.168.1.2"}


@dataclass
class Link:
    """A connection of the fake pool."""

    host: Host


@dataclass
class Fleet:
    """Two hosts that answer as they are asked to; `deeds` is what was asked of which."""

    deeds: list[tuple[str, str]] = field(default_factory=list)
    failures: dict[tuple[str, str], list[SparkfleetError]] = field(default_factory=dict)
    tried: dict[str, str] = field(default_factory=dict)  # why a try failed, by host
    servers: dict[str, str] = field(default_factory=lambda: dict(SERVERS))
    facts: dict[str, HostFacts] = field(default_factory=dict)
    verdicts: tuple[Verdict, ...] = (
        ok("link.reach", "spark-1", "fabric", expected="an answer", seen="one"),
    )
    said: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, work: Callable[[Any], Any], hosts: tuple[Host, ...]) -> Answers[Any]:
        values: dict[str, Any] = {}
        errors: dict[str, SparkfleetError] = {}
        for host in hosts:
            try:
                values[host.name] = work(Link(host))
            except SparkfleetError as failure:
                errors[host.name] = failure
        return Answers(values=values, errors=errors)

    def ask(
        self,
        link: Link,
        user: str,
        request: Mapping[str, Any],
        parser: Callable[[Any], object],
        *,
        timeout: float,
    ) -> object:
        assert user == "nvidia"
        assert timeout > 0
        self.deeds.append((link.host.name, request["do"]))
        if waiting := self.failures.get((link.host.name, request["do"])):
            raise waiting.pop(0)
        return parser({"failed": self.tried.get(link.host.name, ""), "left": []})

    def asked(self, deed: str) -> list[str]:
        """Return the hosts that were asked to do it."""
        return [host for host, what in self.deeds if what == deed]


def _sparks(*, configured: bool) -> list[Spark]:
    sparks = [Spark(name, {}) for name in HOSTS]
    for spark in sparks:
        for rail, netdev in enumerate((F1, P2F1)):
            if configured:
                spark.addresses[netdev] = f"192.168.{100 + rail}.{9 + spark.number}/24"
            spark.port(netdev, up=True, mtu=9000 if configured else 1500)
    return sparks


def _answers(sparks: list[Spark]) -> dict[str, dict[str, list[str]]]:
    macs = {
        (spark.name, netdev): spark.items[f"/sys/class/net/{netdev}/address"]["text"]
        for spark in sparks
        for netdev in (F1, P2F1)
    }
    return {
        spark.name: {
            netdev: [mac for (name, _), mac in macs.items() if name != spark.name]
            for netdev in (F1, P2F1)
        }
        for spark in sparks
    }


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Fleet:
    made = Fleet(facts={spark.name: spark.facts() for spark in _sparks(configured=True)})
    monkeypatch.setattr(applying, "run_netconfig", made.ask)
    monkeypatch.setattr(applying, "gather_facts", lambda link: made.facts[link.host.name])
    monkeypatch.setattr(applying, "read_login_address", lambda link: made.servers[link.host.name])
    monkeypatch.setattr(applying, "run_active_gate", lambda *_: made.verdicts)
    monkeypatch.setattr(applying, "PAUSE", 0.01)
    return made


def _run(fleet: Fleet, seconds: float = 0.2) -> ApplyRun:
    sparks = _sparks(configured=False)
    inputs = FabricInputs(
        hosts=tuple(spark.host() for spark in sparks),
        facts={spark.name: spark.facts() for spark in sparks},
        networks={
            name: HostNetwork(host=name, netplan=True, management=IPv4Address(server))
            for name, server in SERVERS.items()
        },
        answers=_answers(sparks),
    )
    plan = plan_fabric(inputs)
    assert plan.refusals == ()
    return ApplyRun(
        inputs=inputs,
        plan=plan,
        open_pool=lambda: cast("ConnectionPool", fleet),
        say=fleet.said.append,
        seconds=seconds,
    )


def test_a_change_is_kept_once_the_links_are_proven(fleet: Fleet) -> None:
    result = apply_plan(_run(fleet))
    assert result.problem == ""
    assert result.hosts == dict.fromkeys(HOSTS, "kept")
    assert fleet.asked("try") == fleet.asked("confirm") == list(HOSTS)
    assert fleet.asked("undo") == []


def test_a_host_that_cannot_try_it_undoes_it_everywhere(fleet: Fleet) -> None:
    fleet.tried["spark-2"] = "netplan apply: exit status 1"
    result = apply_plan(_run(fleet))
    assert result.problem == "spark-2: netplan apply: exit status 1"
    assert result.hosts == dict.fromkeys(HOSTS, "as before")
    assert fleet.asked("undo") == list(HOSTS)
    assert fleet.asked("confirm") == []


@pytest.mark.parametrize(
    "verdict",
    [
        error("link.path", "spark-1", "rail", expected="an answer", seen="none"),
        error("link.mtu_path", "spark-1", "rail", expected="MTU 9000", seen="1500"),
        warning("link.ping", "spark-1", "rail", expected="ping", seen="none"),
    ],
    ids=lambda verdict: verdict.check,
)
def test_links_that_are_not_proven_in_time_are_undone(fleet: Fleet, verdict: Verdict) -> None:
    fleet.verdicts = (verdict,)
    result = apply_plan(_run(fleet))
    assert result.problem == str(verdict)
    assert fleet.asked("confirm") == []
    assert fleet.asked("undo") == list(HOSTS)


def test_a_firewall_is_reported_and_the_addresses_are_kept(fleet: Fleet) -> None:
    found = error("link.firewall", "spark-2", "rail", expected="port 6379", seen="timed out")
    fleet.verdicts = (found,)
    result = apply_plan(_run(fleet))
    assert result.problem == ""
    assert result.verdicts == (found,)


def test_another_management_address_does_not_count(fleet: Fleet) -> None:
    fleet.servers["spark-2"] = "169.254.3.4"
    result = apply_plan(_run(fleet))
    assert result.problem == "spark-2 answers at 169.254.3.4, not at 192.168.1.2"


def test_an_address_that_a_rail_lost_again_is_not_confirmed(fleet: Fleet) -> None:
    fleet.facts["spark-1"] = _sparks(configured=False)[0].facts()
    result = apply_plan(_run(fleet))
    assert f"spark-1 {F1} has no address and MTU 1500" in result.problem


def test_a_host_that_is_lost_is_asked_until_its_timer_is_over(fleet: Fleet) -> None:
    fleet.servers["spark-2"] = "10.0.0.9"
    lost = UnreachableError("no answer", host="spark-2")
    fleet.failures["spark-2", "undo"] = [lost, lost, lost]
    result = apply_plan(_run(fleet))
    assert result.hosts == dict.fromkeys(HOSTS, "as before")
    assert fleet.asked("undo").count("spark-2") == 4
    assert [
        line for line in fleet.said if "its own timer" in line or "whose own timer" in line
    ] == ["no answer from spark-2, whose own timer undoes the change"]


def test_an_interrupted_run_is_undone(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> tuple[Verdict, ...]:
        raise KeyboardInterrupt

    monkeypatch.setattr(applying, "run_active_gate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        apply_plan(_run(fleet))
    assert fleet.asked("undo") == list(HOSTS)


def test_a_host_whose_timer_was_faster_is_named(fleet: Fleet) -> None:
    fleet.failures["spark-2", "confirm"] = [
        CommandError("the change was undone on this host: not confirmed", host="spark-2")
    ]
    result = apply_plan(_run(fleet))
    assert result.problem.startswith("spark-2: the change was undone")
    assert result.hosts["spark-1"] == "kept"
    assert result.hosts["spark-2"].startswith("not confirmed: ")


def test_a_gid_that_moved_or_is_missing_is_found() -> None:
    first, second = pair(1, 1)
    first.port(F1, up=True, gid=5)
    second.gid_table(P2F1, {0: ("fe80::1", "IB/RoCE v1"), 1: ("fe80::1", "RoCE v2")})
    faults = {
        (fault.rail.host, fault.rail.name): fault.index
        for fault in find_gid_faults(Cluster(first, second).fabric)
    }
    assert faults == {("spark-1", F1): 5, ("spark-2", P2F1): None}


def test_healthy_gids_need_no_repair() -> None:
    assert list(find_gid_faults(Cluster(*pair(1, 0)).fabric)) == []
