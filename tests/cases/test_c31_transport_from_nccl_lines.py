"""C31: slow answers were blamed on the fabric; NCCL's own lines show the transport."""

from __future__ import annotations

import pytest

from sparkfleet.links.bandwidth.nccl_transport import judge_transport, parse_transports
from tests.gb10 import OUTPUTS, output

LOGS = "vllm-0.20.2-"


def test_net_ib_with_the_hcas_of_each_rank_is_rdma() -> None:
    ranks = parse_transports(output("nccl-info.good-ports-differ-linklocal.txt"))
    assert {rank: x.devices for rank, x in ranks.items()} == {
        "spark-a1b2:72112": ("rocep1s0f1", "roceP2p1s0f1"),
        "spark-c3d4:59531": ("rocep1s0f0", "roceP2p1s0f0"),
    }
    assert all(x.rdma for x in ranks.values())


def test_a_plugins_net_ibext_is_rdma() -> None:
    (rank,) = parse_transports(output("nccl-info.good-ibext-dmabuf-lines.txt")).values()
    assert rank.networks == {"IBext_v10"}
    assert rank.rdma
    assert rank.devices == ("rocep1s0f1", "roceP2p1s0f1")


@pytest.mark.parametrize(
    ("log", "ranks"),
    [
        (f"{LOGS}mp-tp2-nccl-good-head.log", 1),
        (f"{LOGS}mp-tp2-nccl-good-worker.log", 1),
        (f"{LOGS}ray-tp2-nccl-good.log", 2),
    ],
)
def test_net_socket_is_a_fallback_and_refused(log: str, ranks: int) -> None:
    found = parse_transports((OUTPUTS / log).read_text())
    assert len(found) == ranks
    for transport in found.values():
        verdict = judge_transport("spark-1", transport)
        assert verdict is not None
        assert verdict.refuses
        assert verdict.seen.startswith("NET/Socket on enp1s0f")


def test_ray_prefixes_and_colours_before_the_message_do_not_hide_the_rank() -> None:
    found = parse_transports((OUTPUTS / f"{LOGS}ray-tp2-nccl-good.log").read_text())
    assert {rank.split(":")[0] for rank in found} == {"spark-A", "spark-B"}
    assert {x.devices for x in found.values()} == {("enp1s0f1np1",), ("enp1s0f0np0",)}


def test_a_log_without_the_transport_gets_no_verdict() -> None:
    bad = parse_transports("spark-a1b2:1:2 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\n")
    (rank,) = bad.values()
    assert judge_transport("spark-1", rank) is None
    assert parse_transports("nothing of NCCL") == {}


def test_no_verdict_on_speed_is_derived_from_a_good_transport() -> None:
    (rank,) = parse_transports(output("nccl-info.good-ibext-dmabuf-lines.txt")).values()
    verdict = judge_transport("spark-1", rank)
    assert verdict is not None
    assert not verdict.refuses
    assert verdict.fix == ""
