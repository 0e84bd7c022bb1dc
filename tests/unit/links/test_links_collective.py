from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from sparkfleet.links.bandwidth import collective
from sparkfleet.links.bandwidth.collective_verdicts import judge_answers
from sparkfleet.model import Severity
from sparkfleet.onhost.fabric import collective as onhost
from tests.gb10 import Cluster, output, pair, ring
from tests.measured import busbw, evidence

ANSWER: dict[str, Any] = {
    "backend": "gloo",
    "torch": "2.13.0+cpu",
    "nccl": "",
    "device": "cpu",
    "rows": [
        ["all_gather", 1048576, 5005.1, 0.105],
        ["all_reduce", 1048576, 2263.3, 0.463],
        ["all_gather", 4194304, 10000.0, 0.2],
        ["all_reduce", 4194304, 9000.0, 0.5],
    ],
    "log": "",
}
SOCKET = "spark-1:1:2 [0] NCCL INFO NET/Socket : Using [0]enp1s0f1np1:192.168.100.1<0>\n"


def test_each_rank_is_asked_with_its_own_environment_and_the_same_messages() -> None:
    asked = collective.build_collective_requests(evidence(Cluster(*pair(1, 0))))
    first = asked["spark-1"]
    second = asked["spark-2"]
    assert (first["rank"], second["rank"], first["world"]) == (0, 1, 2)
    assert first["init"] == second["init"] == "192.168.100.1:20099"
    assert first["env"]["NCCL_IB_HCA"] == "rocep1s0f1,roceP2p1s0f1"
    assert second["env"]["NCCL_IB_HCA"] == "rocep1s0f0,roceP2p1s0f0"
    assert first["sizes"] == second["sizes"]


def test_messages_end_at_what_the_memory_of_every_host_bears() -> None:
    head, peer = pair()
    peer.text("/proc/meminfo", output("meminfo.bad-kernel-7.0.0-1019-cma-zero.txt"))
    small = f"MemTotal: {2**27} kB\nMemFree: {2**22} kB\nMemAvailable: {2**22} kB\n"
    head.text("/proc/meminfo", small)
    mib = 2**20
    requests = collective.build_collective_requests(evidence(Cluster(head, peer)))
    assert requests["spark-1"]["sizes"] == [mib, 4 * mib, 16 * mib, 64 * mib]


def test_ranks_of_a_ring_meet_outside_it() -> None:
    asked = collective.build_collective_requests(evidence(Cluster(*ring(3))))
    assert asked["spark-3"]["init"] == "192.168.1.1:20099"


def test_a_users_variables_and_unset_ones_reach_the_rank() -> None:
    cluster = Cluster(*pair(nccl_env={"NCCL_NET": None}, vllm_env={"NCCL_DEBUG": "WARN"}))
    env = collective.build_collective_requests(evidence(cluster))["spark-2"]["env"]
    assert env["NCCL_NET"] is None
    assert env["NCCL_DEBUG"] == "WARN"


def test_the_rows_of_each_operation_are_separate() -> None:
    measured = collective.parse_rank_answer(ANSWER).measured
    assert measured
    assert [(row.size, row.busbw) for row in measured.rows["all_gather"]] == [
        (1048576, 0.105),
        (4194304, 0.2),
    ]


@pytest.mark.parametrize(
    ("seen", "severity", "expected"),
    [
        (23.74, Severity.OK, "23.74 GB/s, 1024 MiB"),
        (13.9, Severity.ERROR, "one rail"),
        (1.0, Severity.ERROR, "TCP fallback"),
    ],
)
def test_the_largest_message_decides(seen: float, severity: Severity, expected: str) -> None:
    verdict = busbw(Cluster(*pair()), seen)
    assert verdict.severity is severity
    assert expected in verdict.seen
    assert verdict.expected == "at least 18.75 GB/s"


def test_a_collective_on_the_cpu_is_reported_and_not_judged() -> None:
    assert busbw(Cluster(*pair()), 0.2, backend="gloo").severity is Severity.INFO


def test_nccl_far_below_a_fast_cable_has_causes_of_its_own() -> None:
    cluster = Cluster(*pair())
    verdict = busbw(cluster, 3.0, cable_gbps=189.9)
    assert verdict.refuses
    assert "the cable carried 189.9 Gb/s without NCCL" in verdict.seen
    assert verdict.fix.startswith("NCCL is slow, not the cable")
    assert "NCCL_IB_HCA" in verdict.fix
    for slow in (24.0, None):
        assert "wedged NIC" in busbw(cluster, 3.0, cable_gbps=slow).fix
    assert busbw(cluster, 22.0, cable_gbps=189.9).severity is Severity.OK


@pytest.mark.parametrize("chosen", [{"NCCL_IB_DISABLE": "1"}, {"NCCL_NET": "Socket"}])
def test_a_slow_collective_without_rdma_is_the_users_choice(chosen: dict[str, str]) -> None:
    verdict = busbw(Cluster(*pair(nccl_env=chosen)), 2.4, cable_gbps=189.9)
    assert verdict.severity is Severity.WARNING
    assert "without RDMA" in verdict.seen


def test_messages_before_a_start_are_smaller_and_fewer() -> None:
    idle = f"MemTotal: {2**27} kB\nMemFree: {2**27} kB\nMemAvailable: {2**27} kB\n"
    cluster = evidence(Cluster(*(spark.text("/proc/meminfo", idle) for spark in pair())))
    brief = collective.build_collective_requests(cluster, collective.BRIEF_LOAD)["spark-1"]
    full = collective.build_collective_requests(cluster)["spark-1"]
    assert max(brief["sizes"]) == 256 << 20 < max(full["sizes"])
    assert brief["seconds"] < full["seconds"]
    assert brief["iterations"] < full["iterations"]


def test_the_variables_of_a_rendered_deployment_replace_those_of_the_inventory() -> None:
    known = evidence(Cluster(*pair()))
    rendered = replace(known, environments={"spark-1": {"NCCL_NET": "IB"}})
    requests = collective.build_collective_requests(rendered)
    assert requests["spark-1"]["env"] == {"NCCL_NET": "IB"}
    assert requests["spark-2"]["env"] == dict(known.environment("spark-2"))


def test_an_engine_without_torch_is_only_reported() -> None:
    (verdict,) = _judged(missing="/opt/venv/bin/python: No module named 'torch'", log="")
    assert (verdict.check, verdict.severity) == ("link.collective", Severity.INFO)
    assert "No module named 'torch'" in verdict.seen


def _judged(*, cluster: Cluster | None = None, **answer: Any) -> list[Any]:
    said = {
        "spark-1": collective.parse_rank_answer(ANSWER | answer),
        "spark-2": collective.parse_rank_answer(ANSWER),
    }
    return list(judge_answers(evidence(cluster or Cluster(*pair())), said))


def test_a_rank_that_fell_back_to_tcp_is_refused() -> None:
    (verdict,) = _judged(log=SOCKET)
    assert (verdict.check, verdict.host) == ("link.transport", "spark-1")
    assert verdict.refuses
    assert "NET/Socket on enp1s0f1np1" in verdict.seen


def test_tcp_passes_where_rdma_was_switched_off() -> None:
    cluster = Cluster(*pair(nccl_env={"NCCL_IB_DISABLE": "1"}))
    (verdict,) = _judged(cluster=cluster, log=SOCKET)
    assert verdict.severity is Severity.OK


def test_a_rank_that_failed_is_named_with_what_it_said() -> None:
    (verdict,) = _judged(failed="NCCL error: invalid usage", log="")
    assert (verdict.check, verdict.host, verdict.refuses) == ("link.collective", "spark-1", True)
    assert verdict.seen == "NCCL error: invalid usage"


class FakeTorch:
    """A torch whose collectives take `per_byte` seconds a byte, and set-up of the first `setup`."""

    def __init__(self, per_byte: float, setup: float = 0.0) -> None:
        self.now, self.setup, self.per_byte = 0.0, setup, per_byte
        self.distributed = self
        self.ReduceOp = SimpleNamespace(MAX="max")

    def zeros(self, count: int, device: object) -> FakeTensor:
        return FakeTensor([0.0], count)

    def tensor(self, values: list[float], device: object) -> FakeTensor:
        return FakeTensor(values, len(values))

    def all_reduce(self, tensor: FakeTensor, operation: str = "sum") -> None:
        self.now += self.setup + tensor.count * 4 * self.per_byte
        self.setup = 0.0

    def all_gather_single(self, whole: FakeTensor, part: FakeTensor) -> None:
        self.now += whole.count * 4 * self.per_byte

    def get_world_size(self) -> int:
        return 2

    def barrier(self) -> None:
        """All ranks are there."""


@dataclass
class FakeTensor:
    """A tensor with `count` numbers."""

    values: list[float]
    count: int

    def item(self) -> float:
        return self.values[0]


def time_sizes(monkeypatch: pytest.MonkeyPatch, torch: FakeTorch, seconds: float) -> list[int]:
    monkeypatch.setattr("time.perf_counter", lambda: torch.now)
    request = {
        "sizes": [1 << 20, 4 << 20, 16 << 20],
        "operations": ["all_gather", "all_reduce"],
        "iterations": 20,
        "warmup": 5,
        "seconds": seconds,
        "world": 2,
    }
    rows = onhost.time_collectives(torch, request, SimpleNamespace(type="cpu"))
    return [size for name, size, _, _ in rows if name == "all_reduce"]


def test_a_message_that_would_end_after_the_limit_is_not_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = FakeTorch(per_byte=1 / 100e6)  # 0.52 s for the first size, then 2.1 s and 8.4 s
    assert time_sizes(monkeypatch, slow, 5) == [1 << 20, 4 << 20]
    assert time_sizes(monkeypatch, FakeTorch(per_byte=1 / 10e9), 5)[-1] == 16 << 20


def test_a_fabric_slower_than_the_limit_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert time_sizes(monkeypatch, FakeTorch(per_byte=1 / 1e6), 5) == [1 << 20]


def test_the_time_to_connect_ranks_does_not_use_up_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert time_sizes(monkeypatch, FakeTorch(1 / 10e9, setup=30), 5)[-1] == 16 << 20
