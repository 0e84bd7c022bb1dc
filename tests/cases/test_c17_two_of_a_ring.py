"""C17: two of three ring nodes were given the wrong link address."""

from __future__ import annotations

import pytest

from sparkfleet.links import Topology
from tests.gb10 import Cluster, ring


@pytest.mark.parametrize(
    ("members", "addresses"),
    [
        ((0, 1), ("10.0.0.1", "10.0.0.2")),
        ((1, 2), ("10.1.0.1", "10.1.0.2")),
        ((0, 2), ("10.2.0.2", "10.2.0.1")),
    ],
)
def test_a_subset_uses_the_link_that_it_shares(
    members: tuple[int, int], addresses: tuple[str, str]
) -> None:
    sparks = ring(3, link_topology="ring")
    cluster = Cluster(*(sparks[at] for at in members))
    seen = tuple(cluster.env(host.name)["VLLM_HOST_IP"] for host in cluster.hosts)
    assert seen == addresses
    assert cluster.fabric.topology is Topology.DIRECT
    assert cluster.refusals() == []


def test_in_the_whole_ring_each_pair_has_its_own_addresses() -> None:
    fabric = Cluster(*ring(3)).fabric
    assert str(fabric.address("spark-1", "spark-2")) == "10.0.0.1"
    assert str(fabric.address("spark-1", "spark-3")) == "10.2.0.2"
    assert str(fabric.address("spark-3", "spark-1")) == "10.2.0.1"


def test_opposite_hosts_of_a_ring_of_four_share_no_link() -> None:
    sparks = ring(4)
    cluster = Cluster(sparks[0], sparks[2])
    assert {x.host for x in cluster.found("link.subnet")} == {"spark-1", "spark-3"}
    assert cluster.fabric.address("spark-1") is None
