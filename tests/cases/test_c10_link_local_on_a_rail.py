"""C10: the address-less second rail got a random 169.254 address on one node."""

from __future__ import annotations

from sparkfleet.model import Severity
from tests.gb10 import F1, P2F1, Cluster, Spark, from_ip_addr, pair

RECORDED = "ip-br-addr.one-rail-linklocal-only.txt"


def test_the_recorded_host_is_warned_of_both() -> None:
    addresses = from_ip_addr(RECORDED)
    assert addresses[F1] == "169.254.127.30/16"
    assert addresses[P2F1] == ""
    peer = Spark("spark-2", {F1: "169.254.127.31/16", P2F1: ""})
    cluster = Cluster(Spark("spark-1", addresses), peer)
    (local,) = cluster.found("link.link_local", "spark-1")
    (unused,) = cluster.found("link.unused", "spark-1")
    assert (local.subject, local.seen) == (F1, "169.254.127.30/16")
    assert unused.subject == P2F1
    assert {local.severity, unused.severity} == {Severity.WARNING}
    assert "link-local: []" in local.fix


def test_a_stray_next_to_the_static_address_is_a_warning() -> None:
    head, peer = pair()
    head.addresses[P2F1] += " 169.254.9.9/16"
    cluster = Cluster(head, peer)
    assert [(x.host, x.subject) for x in cluster.found("link.link_local")] == [("spark-1", P2F1)]
    assert cluster.refusals() == []


def test_a_link_local_rail_that_the_inventory_names_is_meant() -> None:
    sparks = (
        Spark("spark-1", {F1: "169.254.1.1/16"}, link_interfaces=[F1]),
        Spark("spark-2", {F1: "169.254.1.2/16"}, link_interfaces=[F1]),
    )
    cluster = Cluster(*sparks)
    assert cluster.found("link.link_local") == []
    assert cluster.env("spark-1")["VLLM_HOST_IP"] == "169.254.1.1"
