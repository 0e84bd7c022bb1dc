"""Rates of an endpoint between two samples of its counters; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Sample = Mapping[str, float]  # vLLM's counters by name, and `at` in seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLoad:
    """Tokens a second between two samples, and the requests and the cache at the later one.

    `cache` is the share of the KV cache in use. `ttft` and `gap` are the mean seconds to the first
    token and between tokens, None where no token was generated in that time.
    """

    generated: float
    prompted: float
    running: int
    waiting: int
    cache: float | None = None
    ttft: float | None = None
    gap: float | None = None
    preempted: int = 0

    def __str__(self) -> str:
        parts = [
            f"{self.generated:.1f} tokens/s generated, {self.prompted:.1f} read",
            f"{self.running} requests running, {self.waiting} waiting",
        ]
        if self.cache is not None:
            parts.append(f"KV cache {self.cache:.0%}")
        if self.ttft is not None:
            parts.append(f"first token after {self.ttft:.2f} s")
        if self.gap is not None:
            parts.append(f"{1000 * self.gap:.0f} ms a token")
        if self.preempted:
            parts.append(f"{self.preempted} preempted")
        return ", ".join(parts)


def compute_load(first: Sample, last: Sample) -> ServerLoad:
    """Return the load between two samples; a counter that was reset counts as unchanged."""
    seconds = max(last["at"] - first["at"], 0.001)

    def rise(name: str) -> float:
        return max(last.get(name, 0.0) - first.get(name, 0.0), 0.0)

    def mean(name: str) -> float | None:
        count = rise(f"{name}_count")
        return rise(f"{name}_sum") / count if count else None

    return ServerLoad(
        generated=rise("vllm:generation_tokens_total") / seconds,
        prompted=rise("vllm:prompt_tokens_total") / seconds,
        running=int(last.get("vllm:num_requests_running", 0)),
        waiting=int(last.get("vllm:num_requests_waiting", 0)),
        cache=last.get("vllm:kv_cache_usage_perc"),
        ttft=mean("vllm:time_to_first_token_seconds"),
        gap=mean("vllm:inter_token_latency_seconds"),
        preempted=int(rise("vllm:num_preemptions_total")),
    )


def count_cached_tokens(first: Sample, last: Sample) -> int:
    """Return how many tokens of prompts came from the prefix cache between two samples."""
    name = "vllm:prefix_cache_hits_total"
    return int(max(last.get(name, 0.0) - first.get(name, 0.0), 0.0))


def count_foreign_tokens(first: Sample, last: Sample, generated: int) -> int:
    """Return how many tokens were generated for other clients; `generated` were for this one."""
    name = "vllm:generation_tokens_total"
    return max(int(last.get(name, 0.0) - first.get(name, 0.0)) - generated, 0)
