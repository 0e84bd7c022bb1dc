"""C14: a switchless ring of four fails at tree connect."""

from __future__ import annotations

import pytest

from sparkfleet.links import Topology
from tests.gb10 import MANAGEMENT, Cluster, output, ring


def test_the_recorded_failure_is_the_tree_over_the_missing_diagonal() -> None:
    assert "ncclTransportTreeConnect" in output("nccl-info.bad-tree-on-switchless-ring.txt")


def test_a_ring_gets_routing_by_subnet_its_prefix_and_the_ring_algorithm() -> None:
    cluster = Cluster(*ring(4))
    assert cluster.fabric.topology is Topology.RING
    env = cluster.env("spark-3")
    assert env["NCCL_IB_SUBNET_AWARE_ROUTING"] == "1"
    assert env["NCCL_IB_SUBNET_PREFIX_LEN"] == "24"
    assert env["NCCL_ALGO"] == "Ring"
    assert env["NCCL_RUNTIME_CONNECT"] == "1"
    assert cluster.refusals() == []


def test_ranks_meet_on_the_management_network() -> None:
    env = Cluster(*ring(4)).env("spark-2")
    assert env["VLLM_HOST_IP"] == "192.168.1.2"
    assert env["NCCL_SOCKET_IFNAME"] == env["GLOO_SOCKET_IFNAME"] == MANAGEMENT


@pytest.mark.parametrize(
    ("name", "value"), [("NCCL_ALGO", "Tree"), ("NCCL_IB_SUBNET_AWARE_ROUTING", None)]
)
def test_settings_that_a_ring_cannot_do_without_are_refused(name: str, value: str | None) -> None:
    found = Cluster(*ring(4, nccl_env={name: value})).found("ring.settings")
    assert {x.host for x in found} == {f"spark-{n}" for n in (1, 2, 3, 4)}
    assert {x.subject for x in found} == {name}
    assert found[0].refuses


def test_two_neighbours_are_a_plain_pair() -> None:
    cluster = Cluster(*ring(4)[1:3])
    assert cluster.fabric.topology is Topology.DIRECT
    assert "NCCL_IB_SUBNET_AWARE_ROUTING" not in cluster.env("spark-2")
    assert cluster.refusals() == []


def test_without_a_common_management_network_a_ring_is_refused() -> None:
    sparks = ring(4)
    sparks[2].addresses[MANAGEMENT] = "172.16.0.3/24"
    found = Cluster(*sparks).found("ring.control")
    assert len(found) == 4
    assert "link_control_interface" in found[0].fix
