"""C15: cables joined the same port index, the kernel lost its CMA, an /etc/nccl.conf was left."""

from __future__ import annotations

from sparkfleet.model import Severity
from tests.gb10 import F0, F1, P2F0, P2F1, Cluster, output, pair, ring


def test_a_ring_of_three_from_port_0_to_port_1_passes() -> None:
    assert Cluster(*ring(3)).refusals() == []


def test_a_cable_between_equal_ports_is_refused() -> None:
    sparks = ring(3)
    swapped = sparks[1].addresses
    for one, other in ((F0, F1), (P2F0, P2F1)):
        swapped[one], swapped[other] = swapped[other], swapped[one]
    for netdev in (F0, F1, P2F0, P2F1):
        sparks[1].gids(netdev)
    found = Cluster(*sparks).found("ring.ports")
    assert {x.seen for x in found} == {
        "spark-1 port 0, spark-2 port 0",
        "spark-2 port 1, spark-3 port 1",
    }
    assert all(x.refuses for x in found)


def test_cma_of_zero_is_a_warning() -> None:
    head, peer = pair()
    peer.text("/proc/meminfo", output("meminfo.bad-kernel-7.0.0-1019-cma-zero.txt"))
    (verdict,) = Cluster(head, peer).found("host.cma")
    assert verdict.severity is Severity.WARNING
    assert (verdict.host, verdict.seen) == ("spark-2", "CmaTotal 0, CmaFree 226226176 bytes")


def test_the_kernel_is_a_warning_unless_kho_is_off() -> None:
    sparks = pair()
    for spark in sparks:
        spark.text("uname", "Linux x 7.0.0-1019-nvidia #19 SMP aarch64 GNU/Linux")
    sparks[1].text("/proc/cmdline", "root=/dev/nvme0n1p2 kho=off quiet")
    assert [x.host for x in Cluster(*sparks).found("host.cma")] == ["spark-1"]


def test_a_left_over_nccl_conf_is_reported() -> None:
    head, peer = pair()
    head.text("/etc/nccl.conf", "NCCL_IB_GID_INDEX=3\n# old\n")
    (verdict,) = Cluster(head, peer).found("env.inherited")
    assert (verdict.host, verdict.subject, verdict.seen) == ("spark-1", "NCCL_IB_GID_INDEX", "3")
    assert verdict.severity is Severity.WARNING


def test_a_value_that_the_inventory_overrides_needs_no_action() -> None:
    head, peer = pair(nccl_env={"NCCL_DEBUG": "INFO"})
    head.text("/etc/nccl.conf", "NCCL_DEBUG=TRACE\n")
    (verdict,) = Cluster(head, peer).found("env.inherited")
    assert (verdict.severity, verdict.fix) == (Severity.INFO, "the rendered value wins")
