"""C09: NCCL works with f1 on one node and f0 on the other; the harness pushed one name to all."""

from __future__ import annotations

import ipaddress

import yaml

from sparkfleet.links.bandwidth.nccl_transport import parse_transports
from sparkfleet.model import Severity
from tests.gb10 import F0, F1, Cluster, Spark, output


def _netplan(name: str) -> dict[str, str]:
    ethernets = yaml.safe_load(output(name))["network"]["ethernets"]
    return {netdev: entry["addresses"][0] for netdev, entry in ethernets.items()}


def _cluster() -> Cluster:
    return Cluster(
        Spark("spark-1", _netplan("netplan.good-dual-rail-mtu9000-f1.yaml")),
        Spark("spark-2", _netplan("netplan.good-dual-rail-mtu9000-f0-peer.yaml")),
    )


def test_differing_ports_are_accepted_with_names_per_host() -> None:
    cluster = _cluster()
    assert cluster.refusals() == []
    assert cluster.env("spark-1")["NCCL_SOCKET_IFNAME"] == F1
    assert cluster.env("spark-2")["NCCL_SOCKET_IFNAME"] == F0


def test_the_hcas_are_those_that_nccl_itself_used() -> None:
    log = output("nccl-info.good-ports-differ-linklocal.txt")
    used = [",".join(rank.devices) for rank in parse_transports(log).values()]
    cluster = _cluster()
    assert [cluster.env(host.name)["NCCL_IB_HCA"] for host in cluster.hosts] == used


def test_an_advisory_note_says_so() -> None:
    found = _cluster().found("link.cages")
    assert {x.host: x.subject for x in found} == {"spark-1": "port 1", "spark-2": "port 0"}
    assert {x.severity for x in found} == {Severity.INFO}


def test_both_meet_in_one_subnet() -> None:
    cluster = _cluster()
    assert cluster.fabric.network == ipaddress.IPv4Network("192.168.100.0/24")
