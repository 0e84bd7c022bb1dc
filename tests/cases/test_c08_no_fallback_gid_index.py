"""C08: a fallback index 3 went to a node whose index is 5."""

from __future__ import annotations

from typing import Any

from tests.gb10 import F1, P2F1, Cluster, Spark, pair


def _crossed(**variables: Any) -> tuple[Spark, Spark]:
    head, worker = pair(0, 1, **variables)
    for netdev in (F1, P2F1):
        worker.gids(netdev, gid=5)
    return head, worker


def test_the_lookup_is_on_the_hosts_own_hcas() -> None:
    cluster = Cluster(*_crossed())
    assert cluster.env("spark-1")["NCCL_IB_HCA"] == "rocep1s0f0,roceP2p1s0f0"
    assert cluster.env("spark-2")["NCCL_IB_HCA"] == "rocep1s0f1,roceP2p1s0f1"


def test_no_index_is_made_up() -> None:
    cluster = Cluster(*_crossed())
    assert all("NCCL_IB_GID_INDEX" not in cluster.env(host.name) for host in cluster.hosts)


def test_one_hca_list_for_all_is_refused_where_nothing_matches_the_fabric() -> None:
    cluster = Cluster(*_crossed(nccl_env={"NCCL_IB_HCA": "=rocep1s0f0,roceP2p1s0f0"}))
    wrong = [x for x in cluster.found("env.hca") if x.refuses]
    assert {x.host for x in wrong} == {"spark-2"}


def test_an_empty_lookup_is_an_error() -> None:
    head, worker = _crossed()
    worker.gid_table(F1, {0: ("fe80::1", "IB/RoCE v1"), 1: ("fe80::1", "RoCE v2")})
    (verdict,) = Cluster(head, worker).found("rdma.gid")
    assert (verdict.host, verdict.subject, verdict.seen) == ("spark-2", "rocep1s0f1", "no IPv4 GID")
    assert verdict.refuses
