"""C01: a launcher took all four HCAs though port 1 goes to a PC."""

from __future__ import annotations

import re

from sparkfleet.facts.tools import parse_ibdev2netdev
from tests.gb10 import F0, F1, P2F0, P2F1, Cluster, Spark, output

RECORDED = "eugr-autodetect.bad-all-four-hcas-second-port-goes-to-a-pc.txt"


def _cluster() -> Cluster:
    head = Spark("spark-1", {F0: "192.168.100.10/24", P2F0: "192.168.101.10/24"})
    peer = Spark("spark-2", {F0: "192.168.100.11/24", P2F0: "192.168.101.11/24"})
    head.addresses |= {F1: "10.0.50.1/24", P2F1: "10.0.51.1/24"}
    for netdev in (F1, P2F1):
        head.port(netdev, up=True)
    return Cluster(head, peer)


def test_only_hcas_whose_netdev_is_in_the_shared_subnet_are_listed() -> None:
    assert _cluster().env("spark-1")["NCCL_IB_HCA"] == "rocep1s0f0,roceP2p1s0f0"


def test_the_port_to_the_pc_does_not_refuse_a_start() -> None:
    assert _cluster().refusals() == []


def test_the_recorded_choice_of_all_four_is_refused() -> None:
    listed = re.search(r"Detected IB_IF: (\S+)", output(RECORDED))
    assert listed is not None
    assert set(listed[1].split(",")) == set(
        parse_ibdev2netdev(output("ibdev2netdev.good-two-cables.txt"))
    )
    head = Spark(
        "spark-1",
        {F0: "192.168.100.10/24", P2F0: "192.168.101.10/24"},
        nccl_env={"NCCL_IB_HCA": listed[1]},
    )
    peer = Spark("spark-2", {F0: "192.168.100.11/24", P2F0: "192.168.101.11/24"})
    wrong = Cluster(head, peer).found("env.hca", "spark-1")
    assert {verdict.subject for verdict in wrong} == {
        "NCCL_IB_HCA: rocep1s0f1",
        "NCCL_IB_HCA: roceP2p1s0f1",
    }
