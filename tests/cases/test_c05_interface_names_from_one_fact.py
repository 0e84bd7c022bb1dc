"""C05: Gloo was given an interface of another node, and placeholders were left in."""

from __future__ import annotations

import re

import pytest

from tests.gb10 import F0, Cluster, output, pair

RECORDED = "gloo.bad-interface-not-on-this-node.txt"


def test_all_names_derive_from_the_interface_of_the_fabric_address() -> None:
    env = Cluster(*pair(0)).env("spark-1")
    assert env["GLOO_SOCKET_IFNAME"] == env["TP_SOCKET_IFNAME"] == env["NCCL_SOCKET_IFNAME"] == F0


def test_the_recorded_name_is_refused_on_a_host_that_lacks_it() -> None:
    found = re.search(r"Unable to find address for: (\S+)", output(RECORDED))
    assert found is not None
    sparks = pair(0, nccl_env={"GLOO_SOCKET_IFNAME": found[1]})
    for spark in sparks:
        spark.lack(f"/sys/class/net/{found[1]}", "missing")
        spark.text("/sys/class/net", f"{F0}\nenP7s7\nlo")
    (verdict,) = Cluster(*sparks).found("env.socket", "spark-1")
    assert verdict.refuses
    assert verdict.seen == "enp1s0f1np1: no such interface"


@pytest.mark.parametrize("value", ["rocepXsYfZ", "<your-hca>", "=rocepXsYfZ,roceP2p1s0f0"])
def test_placeholders_are_refused(value: str) -> None:
    (verdict,) = Cluster(*pair(nccl_env={"NCCL_IB_HCA": value})).found("env.placeholder", "spark-1")
    assert verdict.refuses
    assert verdict.seen == value


def test_real_names_are_no_placeholders() -> None:
    assert (
        Cluster(*pair(nccl_env={"UCX_NET_DEVICES": "roceP2p1s0f1:1"})).found("env.placeholder")
        == []
    )
