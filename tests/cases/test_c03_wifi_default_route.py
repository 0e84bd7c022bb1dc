"""C03: losing Wi-Fi killed serving over a healthy fabric."""

from __future__ import annotations

import pytest

from tests.gb10 import F0, F1, MANAGEMENT, WIFI, Cluster, Spark, pair


def _over_wifi(spark: Spark) -> Spark:
    spark.addresses[WIFI] = f"192.168.7.{spark.number}/24"
    spark.default_route = WIFI
    return spark.netdev(WIFI, carrier="1")


def test_socket_variables_name_the_fabric_though_the_default_route_is_wifi() -> None:
    cluster = Cluster(*map(_over_wifi, pair()))
    env = cluster.env("spark-1")
    names = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "UCX_NET_DEVICES")
    assert {env[name] for name in names} == {F1}
    assert WIFI not in env.values()


@pytest.mark.parametrize("name", ["NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"])
def test_wifi_that_was_asked_for_is_refused(name: str) -> None:
    cluster = Cluster(*map(_over_wifi, pair(nccl_env={name: WIFI})))
    (verdict,) = cluster.found("env.socket", "spark-2")
    assert verdict.refuses
    assert verdict.subject == name
    assert verdict.seen == f"{WIFI}: Wi-Fi or loopback"


@pytest.mark.parametrize(
    ("name", "value", "seen"),
    [
        ("GLOO_SOCKET_IFNAME", F0, "it has no IPv4 address"),
        ("TP_SOCKET_IFNAME", "docker0", "has no address of its own in the subnet of 172.17.0.1/16"),
        ("NCCL_SOCKET_IFNAME", "=docker", "no such interface"),
        ("GLOO_SOCKET_IFNAME", "enp1s0f1", "no such interface"),
    ],
)
def test_an_interface_over_which_the_ranks_cannot_meet_is_refused(
    name: str, value: str, seen: str
) -> None:
    (verdict,) = Cluster(*pair(vllm_env={name: value})).found("env.socket", "spark-1")
    assert verdict.refuses
    assert seen in verdict.seen


@pytest.mark.parametrize("value", [MANAGEMENT, F1, "enP7", f"={F1}", "^docker0"])
def test_interfaces_that_all_hosts_share_pass_and_nccl_takes_the_start_of_a_name(
    value: str,
) -> None:
    assert Cluster(*pair(nccl_env={"NCCL_SOCKET_IFNAME": value})).found("env.socket") == []


def test_wifi_is_refused_as_a_fabric_interface() -> None:
    head, peer = map(_over_wifi, pair(link_interfaces=[WIFI]))
    cluster = Cluster(head, peer)
    (verdict,) = cluster.found("link.interface", "spark-1")
    assert verdict.seen == "Wi-Fi or loopback"
