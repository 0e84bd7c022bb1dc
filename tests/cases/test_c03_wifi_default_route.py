"""C03: losing Wi-Fi killed serving over a healthy fabric."""

from __future__ import annotations

import pytest

from tests.gb10 import F1, WIFI, Cluster, Spark, pair


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


def test_wifi_is_refused_as_a_fabric_interface() -> None:
    head, peer = map(_over_wifi, pair(link_interfaces=[WIFI]))
    cluster = Cluster(head, peer)
    (verdict,) = cluster.found("link.interface", "spark-1")
    assert verdict.seen == "Wi-Fi or loopback"
