"""The transport that NCCL took; logs of NCCL 2.28.9 between two namespaces with two GPUs."""

from __future__ import annotations

import pytest

from sparkfleet.facts.tools import parse_ibdev2netdev
from sparkfleet.links.bandwidth.nccl_transport import judge_transport, parse_transports
from sparkfleet.model import Severity
from tests.budget import limit_cpu_time
from tests.gb10 import OUTPUTS


def _log(name: str) -> str:
    return (OUTPUTS / f"nccl-2.28.9-two-namespaces.{name}.log").read_text()


@pytest.mark.parametrize(
    ("name", "rank", "netdev"),
    [
        ("good-socket-rank0", "vm:600", "enp1s0f1np1"),
        ("good-socket-rank1", "vm:601", "enp1s0f0np0"),
    ],
)
def test_a_fall_back_to_tcp_is_reported_with_its_netdev(name: str, rank: str, netdev: str) -> None:
    found = parse_transports(_log(name))
    assert list(found) == [rank]
    assert found[rank].networks == {"Socket"}
    assert found[rank].devices == (netdev,)
    assert found[rank].version == "2.28.9+cuda13.0"
    verdict = judge_transport("spark-01", found[rank])
    assert verdict is not None
    assert verdict.severity is Severity.ERROR
    assert f"NET/Socket on {netdev}" in verdict.seen


def test_tcp_passes_where_no_rdma_was_expected() -> None:
    (found,) = parse_transports(_log("good-socket-rank0")).values()
    verdict = judge_transport("spark-01", found, rdma=False)
    assert verdict is not None
    assert verdict.severity is Severity.OK


def test_using_without_a_device_is_not_rdma() -> None:
    """NCCL prints that it is using NET/IB, with nothing in the list, also after it found none."""
    (found,) = parse_transports(_log("bad-net-ib-forced-without-hca-rank0")).values()
    assert not found.rdma
    assert found.bare
    verdict = judge_transport("spark-01", found)
    assert verdict is not None
    assert verdict.severity is Severity.ERROR
    assert "no RDMA device" in verdict.seen


def test_a_rank_that_never_got_so_far_gives_no_verdict() -> None:
    (found,) = parse_transports(_log("bad-ifname-of-head-on-worker-rank1")).values()
    assert judge_transport("spark-02", found) is None


LONG_LOGS = ("a:" * 100_000, "a:" * 100_000 + " NCCL INFO x", "x" * 200_000, ":1" * 100_000)


@pytest.mark.parametrize("log", LONG_LOGS, ids=range(len(LONG_LOGS)))
def test_a_log_of_nccl_is_read_in_bounded_time(log: str) -> None:
    marked = f"h:1:2 [0] NCCL INFO NET/IB : Using {'[0]' * 60_000}"
    with limit_cpu_time():
        assert parse_transports(log) == {}
        assert not parse_transports(marked)["h:1"].devices


def test_empty_lines_of_a_tool_are_read_in_bounded_time() -> None:
    with limit_cpu_time():
        assert parse_ibdev2netdev("\n" * 60_000) == {}
