"""C19: interface names were fixed in a config; eno1 does not exist on a GX10."""

from __future__ import annotations

from tests.gb10 import Cluster, pair


def test_an_unknown_interface_is_an_error_that_lists_the_real_ones() -> None:
    (verdict,) = Cluster(*pair(link_interfaces=["eno1"])).found("link.interface", "spark-1")
    assert verdict.refuses
    assert verdict.subject == "link_interfaces: eno1"
    assert verdict.seen == "no such interface"
    assert "enp1s0f0np0, enP2p1s0f0np0, enp1s0f1np1, enP2p1s0f1np1" in verdict.fix


def test_nothing_falls_back_to_loopback_or_a_default_name() -> None:
    cluster = Cluster(*pair(link_interfaces=["eno1"]))
    env = cluster.env("spark-1")
    assert "VLLM_HOST_IP" not in env
    assert not {"eno1", "lo", "127.0.0.1"} & {value for value in env.values() if value}
