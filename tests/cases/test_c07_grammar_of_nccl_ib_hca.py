"""C07: a comma list was used as one sysfs directory name."""

from __future__ import annotations

import pytest

from sparkfleet.facts.rdma import Hca
from sparkfleet.links import hca_filter
from tests.gb10 import F1, Cluster, pair

SPARK = [Hca(name=x) for x in ("rocep1s0f0", "rocep1s0f1", "roceP2p1s0f0", "roceP2p1s0f1")]
MLX5 = [Hca(name=x) for x in ("mlx5_0", "mlx5_1", "mlx5_10", "mlx5_2")]


@pytest.mark.parametrize(
    ("value", "hcas", "selected"),
    [
        ("rocep1s0f0,roceP2p1s0f0", SPARK, ["rocep1s0f0", "roceP2p1s0f0"]),
        ("=rocep1s0f0", SPARK, ["rocep1s0f0"]),
        ("rocep1s0f0:1", SPARK, ["rocep1s0f0"]),
        ("rocep1s0f0:2", SPARK, []),
        ("rocep1s0", SPARK, ["rocep1s0f0", "rocep1s0f1"]),
        ("^mlx5_1", MLX5, ["mlx5_0", "mlx5_2"]),
        ("^=mlx5_1", MLX5, ["mlx5_0", "mlx5_10", "mlx5_2"]),
        ("mlx5_1", MLX5, ["mlx5_1", "mlx5_10"]),
        ("=mlx5_1", MLX5, ["mlx5_1"]),
    ],
)
def test_a_value_selects_as_nccl_does(value: str, hcas: list[Hca], selected: list[str]) -> None:
    assert [x.name for x in hca_filter.parse_hca_filter(value).selected(hcas)] == selected


def test_the_rendered_value_selects_exactly_what_was_chosen() -> None:
    for hcas in (SPARK, MLX5):
        for chosen in hcas:
            value = hca_filter.format_hca_filter([chosen], hcas)
            assert hca_filter.parse_hca_filter(value).selected(hcas) == (chosen,)


@pytest.mark.parametrize(
    "value", ["rocep1s0f1,roceP2p1s0f1", "=rocep1s0f1,roceP2p1s0f1", "rocep1s0f1:1,roceP2p1s0f1:1"]
)
def test_a_healthy_dual_rail_list_passes(value: str) -> None:
    assert Cluster(*pair(nccl_env={"NCCL_IB_HCA": value})).refusals() == []


def test_every_member_is_checked() -> None:
    sparks = pair(nccl_env={"NCCL_IB_HCA": "rocep1s0f1,mlx5_9"})
    (verdict,) = [x for x in Cluster(*sparks).found("env.hca", "spark-1") if x.refuses]
    assert verdict.subject == "NCCL_IB_HCA: mlx5_9"


def test_one_index_must_fit_all_members() -> None:
    head, peer = pair(nccl_ib_gid_index=3)
    head.gids(F1, gid=5)
    (verdict,) = Cluster(head, peer).found("rdma.gid_index")
    assert (verdict.host, verdict.subject) == ("spark-1", "rocep1s0f1")
