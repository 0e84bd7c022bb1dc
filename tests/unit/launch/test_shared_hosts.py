"""Clusters that share a host: the sum of their memory, and their ports."""

from __future__ import annotations

from typing import Any

from sparkfleet.launch.preflight.shared_hosts import find_shared_host_conflicts
from tests.engines import settings


def found(**clusters: list[Any]) -> list[str]:
    return [str(conflict) for conflict in find_shared_host_conflicts(clusters)]


def spark(name: str = "spark-1", share: float | None = 0.4, **variables: Any) -> Any:
    args = {"kv-cache-memory-bytes": "4GiB"} if share is None else {"gpu-memory-utilization": share}
    return settings(name, vllm_args=args, **variables)


def test_parts_of_the_memory_that_add_up_to_less_than_all_are_fine() -> None:
    assert found(left=[spark()], right=[spark(vllm_port=8001)]) == []


def test_more_than_the_memory_is_shown_with_the_sum() -> None:
    (text,) = found(left=[spark(share=0.9)], right=[spark(share=0.45, vllm_port=8001)])
    assert text == (
        "spark-1: gpu-memory-utilization adds up to 1.35 of its memory (0.9 left + 0.45 right); "
        "lower it in vllm_args of these clusters, or run one of them at a time"
    )


def test_a_set_cache_claims_no_share() -> None:
    assert found(left=[spark(share=0.9)], right=[spark(share=None, vllm_port=8001)]) == []


def test_the_same_port_on_one_host_is_named_with_its_variable() -> None:
    (text,) = found(left=[spark()], right=[spark()])
    assert text == (
        "spark-1: port 8000 is used by left and right; set vllm_port of one of them to another port"
    )


def test_clusters_of_other_hosts_share_nothing() -> None:
    assert found(left=[spark(share=0.9)], right=[spark("spark-2", share=0.9)]) == []


def test_a_worker_holds_the_ports_of_ray_and_not_that_of_the_endpoint() -> None:
    pair = [spark(), spark("spark-2")]
    assert found(pair=pair, small=[spark("spark-2")]) == []
    texts = found(pair=pair, other=[spark("spark-2", vllm_port=8001), spark("spark-3")])
    assert [text.partition(";")[0] for text in texts] == [
        "spark-2: port 6380 is used by pair and other",
        "spark-2: port 6381 is used by pair and other",
    ]
