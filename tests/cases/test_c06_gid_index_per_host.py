"""C06: the GID index is per node and drifts; the head's value must not reach the worker."""

from __future__ import annotations

from typing import Any

from sparkfleet.model import Severity
from tests.gb10 import F1, P2F1, Cluster, Spark, pair


def _drifted(**variables: Any) -> tuple[Spark, Spark]:
    head, worker = pair(**variables)
    for netdev in (F1, P2F1):
        worker.gids(netdev, gid=6)
    return head, worker


def test_the_index_is_left_to_nccl() -> None:
    cluster = Cluster(*_drifted())
    assert "NCCL_IB_GID_INDEX" not in cluster.env("spark-1")
    assert "NCCL_IB_GID_INDEX" not in cluster.env("spark-2")
    assert cluster.refusals() == []


def test_indexes_that_differ_are_shown_with_both_values() -> None:
    found = Cluster(*_drifted()).found("rdma.gid_indexes")
    assert {x.host: x.seen for x in found} == {
        "spark-1": "rocep1s0f1: 3, roceP2p1s0f1: 3",
        "spark-2": "rocep1s0f1: 6, roceP2p1s0f1: 6",
    }
    assert {x.severity for x in found} == {Severity.INFO}


def test_an_index_for_one_host_stays_on_that_host() -> None:
    head, worker = _drifted()
    head.variables["nccl_ib_gid_index"] = 3
    worker.variables["nccl_ib_gid_index"] = 6
    cluster = Cluster(head, worker)
    assert cluster.env("spark-1")["NCCL_IB_GID_INDEX"] == "3"
    assert cluster.env("spark-2")["NCCL_IB_GID_INDEX"] == "6"
    assert cluster.refusals() == []


def test_one_index_for_all_is_refused_where_it_does_not_fit() -> None:
    found = Cluster(*_drifted(nccl_ib_gid_index=3)).found("rdma.gid_index")
    assert {x.host for x in found} == {"spark-2"}
    assert found[0].refuses
    assert "NCCL_IB_GID_INDEX 6" in found[0].expected


def test_unset_is_said_to_the_environment() -> None:
    assert Cluster(*pair(nccl_ib_gid_index="unset")).env("spark-1")["NCCL_IB_GID_INDEX"] is None
