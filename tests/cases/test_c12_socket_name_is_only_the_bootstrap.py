"""C12: NCCL_SOCKET_IFNAME=management alone left the data path open; 16G froze a node."""

from __future__ import annotations

from sparkfleet.links.bandwidth.nccl_transport import parse_transports
from sparkfleet.links.bandwidth.perftest import limit_message_size
from sparkfleet.model import Severity
from tests.gb10 import MANAGEMENT, OUTPUTS, Cluster, pair
from tests.measured import busbw

GIB = 1024**3


def _cluster() -> Cluster:
    return Cluster(*pair(nccl_env={"NCCL_SOCKET_IFNAME": MANAGEMENT}))


def test_both_hcas_are_pinned_all_the_same() -> None:
    env = _cluster().env("spark-1")
    assert env["NCCL_SOCKET_IFNAME"] == MANAGEMENT
    assert env["NCCL_IB_HCA"] == "rocep1s0f1,roceP2p1s0f1"


def test_a_note_says_what_the_variable_does_not_do() -> None:
    (note,) = _cluster().found("env.bootstrap", "spark-1")
    assert note.severity is Severity.INFO
    assert "only sets the bootstrap" in note.fix


def test_the_size_of_a_measurement_is_bound_by_the_memory_that_is_free() -> None:
    sizes = [limit_message_size([gib * GIB, 110 * GIB]) for gib in (1, 8, 32, 110)]
    assert sizes == sorted(sizes)
    assert sizes[-1] == GIB
    assert all(size * 4 <= gib * GIB / 16 for size, gib in zip(sizes, (1, 8, 32, 110), strict=True))


def test_3_gb_s_is_named() -> None:
    verdict = busbw(Cluster(*pair()), 3.0)
    assert "unpinned data path" in verdict.seen
    assert "MTU 9000" in verdict.fix


def test_the_nccl_version_is_shown() -> None:
    log = (OUTPUTS / "vllm-0.20.2-mp-tp2-nccl-good-head.log").read_text()
    assert {rank.version for rank in parse_transports(log).values()} == {"2.28.9+cuda13.0"}
