"""C16: hosts wired both by switch and by DAC; the first two active interfaces were taken."""

from __future__ import annotations

from typing import Any

from tests.gb10 import F0, F1, P2F0, P2F1, Cluster, Spark


def _wired_twice(number: int, **variables: Any) -> Spark:
    cable = (number - 1) // 2  # hosts 1 and 2 share a DAC, as do 3 and 4
    return Spark(
        f"spark-{number}",
        {
            F0: f"10.9.{cable}.{number}/24",
            P2F0: f"10.8.{cable}.{number}/24",
            F1: f"10.1.0.{number}/24",
            P2F1: f"10.2.0.{number}/24",
        },
        **variables,
    )


def test_a_pair_that_shares_two_cages_must_name_one() -> None:
    cluster = Cluster(_wired_twice(1), _wired_twice(2))
    found = cluster.found("link.choice")
    assert {x.host for x in found} == {"spark-1", "spark-2"}
    assert found[0].refuses
    assert "link_interfaces" in found[0].fix


def test_the_inventory_decides_per_cluster() -> None:
    dac = [F0, P2F0]
    cluster = Cluster(*(_wired_twice(n, link_interfaces=dac) for n in (1, 2)))
    assert cluster.refusals() == []
    assert cluster.env("spark-1")["NCCL_IB_HCA"] == "rocep1s0f0,roceP2p1s0f0"
    switch = Cluster(*(_wired_twice(n, link_interfaces=[F1, P2F1]) for n in (1, 2)))
    assert switch.env("spark-1")["VLLM_HOST_IP"] == "10.1.0.1"


def test_both_cables_on_purpose_are_all_four() -> None:
    every = [F0, P2F0, F1, P2F1]
    cluster = Cluster(*(_wired_twice(n, link_interfaces=every) for n in (1, 2)))
    assert cluster.refusals() == []
    assert cluster.env("spark-1")["NCCL_IB_HCA"].count(",") == 3  # type: ignore[union-attr]  # text


def test_all_four_hosts_share_only_the_switch() -> None:
    cluster = Cluster(*(_wired_twice(n) for n in (1, 2, 3, 4)))
    assert cluster.refusals() == []
    for host in cluster.hosts:
        assert cluster.env(host.name)["NCCL_IB_HCA"] == "rocep1s0f1,roceP2p1s0f1"
