"""C37: the init method stayed at 127.0.0.1; NCCL_IB_DISABLE was set on one node only."""

from __future__ import annotations

from sparkfleet.model import Severity
from tests.gb10 import Cluster, pair


def test_no_rank_is_given_a_loopback_address() -> None:
    cluster = Cluster(*pair())
    for host in cluster.hosts:
        assert not any(
            (value or "").startswith("127.") for value in cluster.env(host.name).values()
        )


def test_a_loopback_address_that_was_set_is_refused() -> None:
    found = Cluster(*pair(nccl_env={"VLLM_HOST_IP": "127.0.0.1"})).found("env.host_ip")
    assert {x.host for x in found} == {"spark-1", "spark-2"}
    assert all(x.refuses for x in found)


def test_an_address_of_another_host_is_refused() -> None:
    found = Cluster(*pair(nccl_env={"VLLM_HOST_IP": "192.168.100.1"})).found("env.host_ip")
    assert [x.host for x in found] == ["spark-2"]


def test_a_variable_on_one_rank_only_is_a_warning() -> None:
    head, peer = pair()
    peer.variables["nccl_env"] = {"NCCL_IB_DISABLE": 1}
    cluster = Cluster(head, peer)
    (verdict,) = [x for x in cluster.found("env.ranks") if x.subject == "NCCL_IB_DISABLE"]
    assert (verdict.host, verdict.seen, verdict.expected) == (
        "spark-2",
        "1",
        "no value, as on spark-1",
    )
    assert verdict.severity is Severity.WARNING


def test_names_that_are_per_host_may_differ() -> None:
    assert Cluster(*pair(1, 0)).found("env.ranks") == []
