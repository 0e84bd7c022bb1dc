"""vLLM's counters that are read from `/metrics`, and what they show."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

COUNTERS = (  # as vLLM 0.32 names them; a histogram has the sum and the count of what was seen
    "vllm:generation_tokens_total",
    "vllm:prompt_tokens_total",
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:num_preemptions_total",
    "vllm:prefix_cache_hits_total",
    "vllm:prefix_cache_queries_total",
    "vllm:kv_cache_usage_perc",
    "vllm:time_to_first_token_seconds_sum",
    "vllm:time_to_first_token_seconds_count",
    "vllm:inter_token_latency_seconds_sum",
    "vllm:inter_token_latency_seconds_count",
    "vllm:iteration_tokens_total_count",
    "vllm:request_success_total",
)
FULLEST = "vllm:kv_cache_usage_perc"  # a share: the engine with the most counts, not the sum
REQUESTS = ("vllm:num_requests_running", "vllm:num_requests_waiting")
PROGRESS = (  # each rises when the engine has done a step, or has read, written or ended an answer
    "vllm:generation_tokens_total",
    "vllm:prompt_tokens_total",
    "vllm:iteration_tokens_total_count",
    "vllm:request_success_total",
)


def parse_counters(text: str) -> dict[str, float]:
    """Return the counters in what /metrics says: the text format of Prometheus."""
    totals: dict[str, float] = {}
    for line in text.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        if name in COUNTERS:
            with contextlib.suppress(ValueError):  # no number
                value = float(line.rsplit(" ", 1)[1])
                previous = totals.get(name, 0.0)
                totals[name] = max(previous, value) if name == FULLEST else previous + value
    return totals


def count_requests(sample: Mapping[str, float]) -> int:
    """Return how many requests run or wait."""
    return int(sum(sample.get(name, 0.0) for name in REQUESTS))


def has_progressed(first: Mapping[str, float], last: Mapping[str, float]) -> bool:
    """Return whether the engine has worked on any request between two looks.

    A counter that began anew belongs to another engine, which has answered.
    """
    return any(first.get(name, 0.0) != last.get(name, 0.0) for name in PROGRESS)
