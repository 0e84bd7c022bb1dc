"""Both ends of a transfer are in one subnet, however the cables cross."""

from __future__ import annotations

import pytest

from sparkfleet.actions.stage.fabric_routes import build_fabric_lookup
from sparkfleet.weights.transfer.routes import Ends
from sparkfleet.weights.transfer.stage import Strategy
from tests.gb10 import F0, F1, P2F0, P2F1, Cluster, Spark, pair, ring, switch

EVERY = [F0, P2F0, F1, P2F1]


def _crossed() -> Cluster:
    """Two cables, each from one cage to the other cage of the peer."""
    there = dict(zip(EVERY, (1, 2, 3, 4), strict=True))
    here = dict(zip((F1, P2F1, F0, P2F0), (1, 2, 3, 4), strict=True))
    return Cluster(
        *(
            Spark(
                f"spark-{number}",
                {name: f"10.0.{net}.{number}/24" for name, net in nets.items()},
                link_interfaces=EVERY,
            )
            for number, nets in ((1, there), (2, here))
        )
    )


@pytest.mark.parametrize(
    "cluster",
    [_crossed(), Cluster(*pair(1, 0)), Cluster(*switch(4)), Cluster(*ring(4))],
    ids=["crossed", "pair", "switch", "ring"],
)
def test_the_ends_of_every_pair_of_hosts_share_a_subnet(cluster: Cluster) -> None:
    fabric = cluster.fabric
    for host in fabric.hosts:
        for peer in fabric.hosts:
            found = fabric.find_pair(host, peer) if host != peer else None
            if host != peer and next(fabric.between(host, peer), None):
                assert found
                assert found[0].network == found[1].network
                assert (found[0].host, found[1].host) == (host, peer)
                assert fabric.find_pair(peer, host) == found[::-1]
                assert fabric.address(host, peer) == found[0].ip


def test_hosts_of_a_ring_without_a_cable_have_no_pair() -> None:
    assert Cluster(*ring(4)).fabric.find_pair("spark-1", "spark-3") is None


def test_weights_go_between_addresses_of_one_subnet() -> None:
    shared = build_fabric_lookup(_crossed().fabric, Strategy.FANOUT)
    assert shared("spark-1", "spark-2") == Ends(sender="10.0.1.1", receiver="10.0.1.2")
    assert shared("spark-2", "spark-1") == Ends(sender="10.0.1.2", receiver="10.0.1.1")
