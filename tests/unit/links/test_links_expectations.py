from __future__ import annotations

from typing import Any

import pytest

from sparkfleet import links
from sparkfleet.errors import Where
from sparkfleet.model import Host, Value
from tests.gb10 import F0, F1, P2F0, P2F1, Cluster, Spark, pair, ring


def test_an_address_that_is_not_the_stated_one() -> None:
    head, peer = pair()
    peer.variables["link_addresses"] = {F1: "192.168.100.9/24"}
    (verdict,) = Cluster(head, peer).found("link.expected_address")
    assert (verdict.host, verdict.subject) == ("spark-2", F1)
    assert (verdict.expected, verdict.seen) == ("192.168.100.9/24", "192.168.100.2/24")


def test_the_stated_address_passes() -> None:
    head, peer = pair()
    peer.variables["link_addresses"] = {F1: "192.168.100.2/24"}
    assert Cluster(head, peer).refusals() == []


def _ring_with_cables() -> tuple[Spark, ...]:
    sparks = ring(3)
    for at, spark in enumerate(sparks):
        following = sparks[(at + 1) % 3].name
        spark.variables["link_cables"] = {F0: f"{following}:{F1}", P2F0: f"{following}:{P2F1}"}
    return sparks


def test_cables_where_the_inventory_says_pass() -> None:
    assert Cluster(*_ring_with_cables()).refusals() == []


def test_swapped_cages_are_named_at_both_ends() -> None:
    sparks = _ring_with_cables()
    own = sparks[1].addresses
    for one, other in ((F0, F1), (P2F0, P2F1)):
        own[one], own[other] = own[other], own[one]
    for netdev in (F0, F1, P2F0, P2F1):
        sparks[1].gids(netdev)
    found = Cluster(*sparks).found("link.expected_cable")
    first = next(x for x in found if x.host == "spark-1" and x.subject == F0)
    assert first.expected == f"a cable to spark-2:{F1}"
    assert first.seen == f"spark-2:{F0}"


def test_a_cable_to_a_host_outside_this_cluster_is_not_judged() -> None:
    sparks = _ring_with_cables()[:2]
    assert Cluster(*sparks).refusals() == []


def test_fewer_rails_than_stated() -> None:
    sparks = tuple(Spark(f"spark-{n}", {F1: f"10.0.0.{n}/24"}, link_rails=2) for n in (1, 2))
    assert [x.seen for x in Cluster(*sparks).found("link.expected_rails")] == [f"1: {F1}"] * 2


def test_one_rail_that_is_stated_gives_no_warning() -> None:
    sparks = tuple(
        Spark(f"spark-{n}", {F1: f"10.0.0.{n}/24", P2F1: ""}, link_rails=1) for n in (1, 2)
    )
    cluster = Cluster(*sparks)
    assert cluster.refusals() == cluster.warnings() == []


@pytest.mark.parametrize(
    ("name", "wanted", "refused"),
    [
        ("link_firmware", "28.45.*", False),
        ("link_firmware", "28.47.1088", True),
        ("cluster_kernel", "6.17.0-*-nvidia", False),
        ("cluster_kernel", "7.*", True),
        ("cluster_driver", "580.*", False),
        ("cluster_driver", "590.*", True),
    ],
)
def test_versions_match_the_globs(name: str, wanted: Any, *, refused: bool) -> None:
    found = Cluster(*pair(**{name: wanted})).found("host.expected_version")
    assert [x.subject for x in found] == ([name, name] if refused else [])


def test_hcas_of_the_inventory_replace_the_computed_ones_and_say_where() -> None:
    cluster = Cluster(*pair())
    where = Where(file="hosts.yml", line=7, col=3)
    host = Host(name="spark-1", vars={"nccl_ib_hca": Value(data="=rocep1s0f1:1", where=where)})
    (variable,) = [
        x for x in links.compute_rank_env(cluster.fabric, host) if x.name == "NCCL_IB_HCA"
    ]
    assert (variable.value, variable.why) == ("=rocep1s0f1:1", "nccl_ib_hca, hosts.yml:7:3")
