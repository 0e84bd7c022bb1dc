from __future__ import annotations

import pytest

from sparkfleet import links
from tests.gb10 import Cluster, Spark, pair, ring, switch

PAIR_HEAD = """\
VLLM_HOST_IP=192.168.100.1  # address of enp1s0f1np1: 192.168.100.0/24 is the fabric subnet that spark-1, spark-2 share
NCCL_SOCKET_IFNAME=enp1s0f1np1  # interface of VLLM_HOST_IP
GLOO_SOCKET_IFNAME=enp1s0f1np1  # interface of VLLM_HOST_IP
TP_SOCKET_IFNAME=enp1s0f1np1  # interface of VLLM_HOST_IP
UCX_NET_DEVICES=enp1s0f1np1  # interface of VLLM_HOST_IP
NCCL_IB_HCA=rocep1s0f1,roceP2p1s0f1  # the rails in use: rocep1s0f1 is on enp1s0f1np1, roceP2p1s0f1 is on enP2p1s0f1np1
NCCL_NET=IB  # fail where RDMA is unavailable instead of falling back to TCP
"""  # noqa: E501 - as rendered

PAIR_WORKER = """\
VLLM_HOST_IP=192.168.100.2  # address of enp1s0f0np0: 192.168.100.0/24 is the fabric subnet that spark-1, spark-2 share
NCCL_SOCKET_IFNAME=enp1s0f0np0  # interface of VLLM_HOST_IP
GLOO_SOCKET_IFNAME=enp1s0f0np0  # interface of VLLM_HOST_IP
TP_SOCKET_IFNAME=enp1s0f0np0  # interface of VLLM_HOST_IP
UCX_NET_DEVICES=enp1s0f0np0  # interface of VLLM_HOST_IP
NCCL_IB_HCA=rocep1s0f0,roceP2p1s0f0  # the rails in use: rocep1s0f0 is on enp1s0f0np0, roceP2p1s0f0 is on enP2p1s0f0np0
NCCL_NET=IB  # fail where RDMA is unavailable instead of falling back to TCP
"""  # noqa: E501 - as rendered

SWITCH_THIRD = """\
VLLM_HOST_IP=192.168.100.3  # address of enp1s0f1np1: 192.168.100.0/24 is the fabric subnet that spark-1, spark-2, spark-3, spark-4 share
NCCL_SOCKET_IFNAME=enp1s0f1np1  # interface of VLLM_HOST_IP
GLOO_SOCKET_IFNAME=enp1s0f1np1  # interface of VLLM_HOST_IP
TP_SOCKET_IFNAME=enp1s0f1np1  # interface of VLLM_HOST_IP
UCX_NET_DEVICES=enp1s0f1np1  # interface of VLLM_HOST_IP
NCCL_IB_HCA=rocep1s0f1,roceP2p1s0f1  # the rails in use: rocep1s0f1 is on enp1s0f1np1, roceP2p1s0f1 is on enP2p1s0f1np1
NCCL_NET=IB  # fail where RDMA is unavailable instead of falling back to TCP
"""  # noqa: E501 - as rendered

RING_SECOND = """\
VLLM_HOST_IP=192.168.1.2  # address of enP7s7: the ring has no subnet for all; 192.168.1.0/24 joins every node
NCCL_SOCKET_IFNAME=enP7s7  # interface of VLLM_HOST_IP
GLOO_SOCKET_IFNAME=enP7s7  # interface of VLLM_HOST_IP
TP_SOCKET_IFNAME=enP7s7  # interface of VLLM_HOST_IP
UCX_NET_DEVICES=enP7s7  # interface of VLLM_HOST_IP
NCCL_IB_HCA=rocep1s0f0,roceP2p1s0f0,rocep1s0f1,roceP2p1s0f1  # the rails in use: rocep1s0f0 is on enp1s0f0np0, roceP2p1s0f0 is on enP2p1s0f0np0, rocep1s0f1 is on enp1s0f1np1, roceP2p1s0f1 is on enP2p1s0f1np1
NCCL_NET=IB  # fail where RDMA is unavailable instead of falling back to TCP
NCCL_IB_SUBNET_AWARE_ROUTING=1  # in a ring each port reaches one neighbour only
NCCL_IB_SUBNET_PREFIX_LEN=24  # prefix of the cables' subnets
NCCL_IB_MERGE_NICS=0  # a merged NIC would span two cables
NCCL_NET_PLUGIN=none  # a plugin does not route by subnet
"""  # noqa: E501 - as rendered


def _rendered(sparks: tuple[Spark, ...], rank: int) -> str:
    cluster = Cluster(*sparks)
    variables = links.compute_rank_env(cluster.fabric, cluster.hosts[rank])
    return "".join(f"{x.name}={x.value}  # {x.why}\n" for x in variables)


@pytest.mark.parametrize(
    ("sparks", "rank", "golden"),
    [
        (pair(1, 0), 0, PAIR_HEAD),
        (pair(1, 0), 1, PAIR_WORKER),
        (switch(4), 2, SWITCH_THIRD),
        (ring(3), 1, RING_SECOND),
    ],
    ids=["pair-head", "pair-worker", "switch4", "ring3"],
)
def test_a_healthy_fabric_renders(sparks: tuple[Spark, ...], rank: int, golden: str) -> None:
    assert _rendered(sparks, rank) == golden


def test_a_value_of_the_user_replaces_the_computed_one_and_says_so() -> None:
    cluster = Cluster(*pair(nccl_env={"NCCL_NET": "IBext_v10", "NCCL_DEBUG": "INFO", "X": 1.5}))
    variables = {x.name: x for x in links.compute_rank_env(cluster.fabric, cluster.hosts[0])}
    assert variables["NCCL_NET"].value == "IBext_v10"
    assert variables["NCCL_NET"].why == "nccl_env (instead of IB)"
    assert variables["NCCL_DEBUG"].value == "INFO"
    assert variables["X"].value == "1.5"


def test_null_unsets_a_variable() -> None:
    assert Cluster(*pair(nccl_env={"NCCL_NET": None})).env("spark-1")["NCCL_NET"] is None


def test_twins_in_one_subnet_are_routed_by_subnet() -> None:
    sparks = tuple(
        Spark(f"spark-{n}", {"enp1s0f0np0": f"10.0.0.{n}/24", "enP2p1s0f0np0": f"10.0.0.1{n}/24"})
        for n in (1, 2)
    )
    cluster = Cluster(*sparks)
    assert cluster.env("spark-1")["NCCL_IB_SUBNET_AWARE_ROUTING"] == "1"
    assert cluster.refusals() == []
    assert cluster.warnings() == ["link.twin_subnet", "link.twin_subnet"]


def test_names_of_hcas_that_are_prefixes_of_others_are_exact() -> None:
    head, peer = pair()
    for file in [x for x in head.items if "/rocep1s0f1" in x]:
        head.items[file.replace("/rocep1s0f1", "/mlx5_1")] = head.items.pop(file)
    for file in [x for x in head.items if "/rocep1s0f0" in x]:
        head.items[file.replace("/rocep1s0f0", "/mlx5_10")] = head.items.pop(file)
    head.text("/sys/class/infiniband", "mlx5_1\nmlx5_10\nroceP2p1s0f0\nroceP2p1s0f1")
    assert Cluster(head, peer).env("spark-1")["NCCL_IB_HCA"] == "=mlx5_1,roceP2p1s0f1"


def test_a_single_host_has_no_fabric_variables() -> None:
    cluster = Cluster(pair()[0])
    assert links.compute_rank_env(cluster.fabric, cluster.hosts[0]) == ()
    assert cluster.verdicts == ()
