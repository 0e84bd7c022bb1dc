"""The panels of the dashboard: what each shows, with its queries in PromQL."""

from __future__ import annotations

from dataclasses import dataclass

WHERE = 'cluster="$cluster"'
HOST = f'{WHERE}, host=~"$host"'
TIME = "[$__rate_interval]"
SHARES = ((0.5, "median"), (0.95, "95 %"))
ALIVE = (("0", "lost", "red"), ("1", "works", "green"))
CARRIER = (("0", "down", "red"), ("1", "up", "green"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A panel: its queries with their legends, the unit by Grafana's name, and its size.

    `mappings` are values, each with its text and its colour.
    """

    title: str
    queries: tuple[tuple[str, str], ...]
    kind: str = "timeseries"
    unit: str = "short"
    width: int = 8
    height: int = 7
    mappings: tuple[tuple[str, str, str], ...] = ()


def _build_quantiles(histogram: str) -> tuple[tuple[str, str], ...]:
    """Return queries for the median and the 95th percentile of a histogram of vLLM."""
    rate = f"sum by (le) (rate({histogram}_bucket{{{WHERE}}}{TIME}))"
    return tuple((f"histogram_quantile({share}, {rate})", name) for share, name in SHARES)


PANELS = (
    Panel(
        title="State",
        queries=((f"sparkfleet_health_state{{{WHERE}}} == 1", "{{state}}"),),
        kind="stat",
        height=5,
    ),
    Panel(
        title="Ranks",
        queries=((f"sparkfleet_rank_alive{{{WHERE}}}", "rank {{rank}} on {{host}}"),),
        kind="stat",
        height=5,
        mappings=ALIVE,
    ),
    Panel(
        title="Rails",
        queries=((f"sparkfleet_rail_carrier{{{HOST}}}", "{{host}} {{netdev}}"),),
        kind="stat",
        height=5,
        mappings=CARRIER,
    ),
    Panel(
        title="Tokens per second",
        queries=(
            (f"sum(rate(vllm:generation_tokens_total{{{WHERE}}}{TIME}))", "generated"),
            (f"sum(rate(vllm:prompt_tokens_total{{{WHERE}}}{TIME}))", "read"),
        ),
    ),
    Panel(
        title="Requests",
        queries=(
            (f"sum(vllm:num_requests_running{{{WHERE}}})", "running"),
            (f"sum(vllm:num_requests_waiting{{{WHERE}}})", "waiting"),
        ),
    ),
    Panel(
        title="KV cache in use",
        queries=((f"max(vllm:kv_cache_usage_perc{{{WHERE}}})", "share"),),
        unit="percentunit",
    ),
    Panel(
        title="Time to first token",
        queries=_build_quantiles("vllm:time_to_first_token_seconds"),
        unit="s",
    ),
    Panel(
        title="Time between tokens",
        queries=_build_quantiles("vllm:inter_token_latency_seconds"),
        unit="s",
    ),
    Panel(
        title="Link throughput",
        queries=(
            (f"rate(sparkfleet_links_received_bytes_total{{{HOST}}}{TIME})", "{{host}} in"),
            (f"rate(sparkfleet_links_sent_bytes_total{{{HOST}}}{TIME})", "{{host}} out"),
        ),
        unit="Bps",
    ),
    Panel(
        title="GPU power",
        queries=((f"sparkfleet_gpu_power_watts{{{HOST}}}", "{{host}}"),),
        unit="watt",
    ),
    Panel(
        title="GPU temperature",
        queries=((f"sparkfleet_gpu_temperature_celsius{{{HOST}}}", "{{host}}"),),
        unit="celsius",
    ),
    Panel(
        title="GPU clock",
        queries=((f"sparkfleet_gpu_clock_hertz{{{HOST}}}", "{{host}}"),),
        unit="hertz",
    ),
    Panel(
        title="Memory available",
        queries=((f"sparkfleet_host_memory_available_bytes{{{HOST}}}", "{{host}}"),),
        unit="bytes",
        width=12,
    ),
    Panel(
        title="Time since the last check",
        queries=((f"time() - sparkfleet_look_timestamp_seconds{{{WHERE}}}", "seconds"),),
        unit="s",
        width=12,
    ),
)
