"""Rates before a start: all rails of a cable at once, and singly where in doubt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from sparkfleet import links
from sparkfleet.links import Samples, receipt
from sparkfleet.links.bandwidth import measurement
from sparkfleet.links.gate import LONGER, MOMENT
from sparkfleet.model import Host
from sparkfleet.remote.local import LocalConnection
from sparkfleet.remote.pool import ConnectionPool
from tests.gb10 import F1, P2F1, Cluster, pair


@dataclass(kw_only=True)
class Wires:
    """The program on the hosts, as if it had measured; `gbps` of each own address at once."""

    gbps: Mapping[str, float]
    silent: str = ""  # an address that nothing passes from
    windows: list[tuple[int, float]] = field(default_factory=list)  # rails, s
    requests: int = 0

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self.requests += 1
        if "take" in request:
            return {"ports": [10_000 + at for at, _ in enumerate(request["take"])]}
        flows = request["send"]
        if flows[0]["kind"] == "echo":
            return {"sent": [{"microseconds": 20.0} for _ in flows]}
        self.windows.append((len(flows), request["seconds"]))
        return {"sent": [self._measure(flow["own"]) for flow in flows]}

    def _measure(self, own: str) -> dict[str, Any]:
        if own == self.silent:
            return {"why": "timed out"}
        sent = int(self.gbps[own] * 1e9 / 8)
        return {"bytes": sent, "seconds": 1.0, "need": 0.2, "idle": 0.5}


@dataclass(kw_only=True)
class Answering:
    """A session with that program."""

    wires: Wires
    first: bool = False

    def send_request(self, request: Mapping[str, Any], parser: Any) -> Any:
        return parser(self.wires.answer(request))


def _sample(cluster: Cluster, wires: Wires, monkeypatch: pytest.MonkeyPatch) -> Samples:
    @contextmanager
    def answer(
        pool: ConnectionPool, program: str, requests: Any, parser: Any, *, hosts: Sequence[Host]
    ) -> Iterator[dict[str, Answering]]:
        yield {host.name: Answering(wires=wires) for host in hosts}

    monkeypatch.setattr(measurement, "open_sessions", answer)
    with ConnectionPool(LocalConnection) as pool:
        return links.sample_rates(pool, cluster.fabric, cluster.hosts)


def _addresses(cluster: Cluster, *names: str) -> list[str]:
    rails = (rail for host in cluster.fabric.hosts for rail in cluster.fabric.rails[host])
    return [str(rail.ip) for rail in rails if not names or rail.name in names]


def _refused(cluster: Cluster, samples: Samples) -> set[tuple[str, str]]:
    verdicts = links.judge_rates(samples, cluster.hosts)
    return {(verdict.check, verdict.host) for verdict in verdicts if verdict.refuses}


def test_a_good_cable_is_measured_once_a_direction_with_all_its_rails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(*pair())
    wires = Wires(gbps=dict.fromkeys(_addresses(cluster), 95.0))
    samples = _sample(cluster, wires, monkeypatch)
    assert wires.windows == [(2, MOMENT)] * 2
    assert wires.requests == 6  # who takes and who sends: round trips, and each direction
    first = samples.rates[:3]
    assert [(rate.host, rate.rails, rate.sharing) for rate in first] == [
        ("spark-1", (F1, P2F1), 1),
        ("spark-1", (F1,), 2),
        ("spark-1", (P2F1,), 2),
    ]
    assert [rate.gbps for rate in first] == pytest.approx([190, 95, 95])
    assert [rate.whole for rate in samples.rates] == [True, False, False] * 2
    assert _refused(cluster, samples) == set()


def test_a_rail_that_lacks_its_part_is_measured_singly_and_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(*pair(link_expected_gbps=100))
    slow = _addresses(cluster, F1)[0]
    wires = Wires(gbps={**dict.fromkeys(_addresses(cluster), 95.0), slow: 20.0})
    samples = _sample(cluster, wires, monkeypatch)
    assert wires.windows == [(2, MOMENT)] * 2 + [(2, LONGER), (1, LONGER), (1, LONGER)] * 2
    assert {rate.sharing for rate in samples.rates} == {1}
    assert _refused(cluster, samples) == {("link.rail_bandwidth", "spark-1")}


def test_a_rail_that_nothing_passes_is_measured_again_and_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(*pair())
    addresses = _addresses(cluster)
    wires = Wires(gbps=dict.fromkeys(addresses, 95.0), silent=addresses[0])
    samples = _sample(cluster, wires, monkeypatch)
    assert len(wires.windows) == 8
    assert ("link.rail_bandwidth", "spark-1") in _refused(cluster, samples)


def test_rails_that_share_what_one_could_carry_are_expected_to_carry_half(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(*pair(link_speed=100_000))
    wires = Wires(gbps=dict.fromkeys(_addresses(cluster), 48.0))
    samples = _sample(cluster, wires, monkeypatch)
    assert wires.windows == [(2, MOMENT)] * 2
    assert _refused(cluster, samples) == set()


def test_a_receipt_keeps_what_was_measured_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(*pair())
    wires = Wires(gbps=dict.fromkeys(_addresses(cluster), 95.0))
    samples = _sample(cluster, wires, monkeypatch)
    text = receipt.format_receipt("hash", cluster.hosts, (), samples, at=datetime.now(UTC))
    kept = receipt.parse_measured_links(text)
    assert kept is not None
    assert [rate.sharing for rate in kept.rates] == [1, 2, 2] * 2
    known = receipt.parse_receipt(text)
    assert known is not None
    assert known.cable_gbps == pytest.approx(190)
