"""C20: the CX-7 is missing until a cable is in; an updater package bricked one."""

from __future__ import annotations

from sparkfleet.model import Severity
from tests.gb10 import F1, HCAS, P2F1, RDMA, Cluster, output, pair


def _recorded_names() -> set[str]:
    lines = output("ip-br-link.bad-no-cx7-interfaces-at-all.txt").splitlines()
    return {line.split()[0] for line in lines}


def test_the_recorded_host_has_no_cx7_interface() -> None:
    assert not {name for name in _recorded_names() if name in HCAS}


def test_a_missing_nic_is_distinguished_from_a_link_that_is_down() -> None:
    head, peer = pair()
    peer.remove_nic()
    cluster = Cluster(head, peer)
    (gone,) = cluster.found("link.nic")
    assert gone.host == "spark-2"
    assert "leaves the PCI bus" in gone.fix
    assert cluster.found("link.cable") == cluster.found("link.down") == []


def test_a_port_without_cable_says_so_and_nothing_of_hot_plug() -> None:
    head, peer = pair()
    for netdev in (F1, P2F1):
        peer.addresses.pop(netdev)
        peer.port(netdev, up=False)
    cluster = Cluster(head, peer)
    (cable,) = cluster.found("link.cable", "spark-2")
    assert cable.seen == "no cable"
    assert cluster.found("link.nic") == []


def test_the_recorded_firmware_lines_are_equal() -> None:
    journal = output("journal.mlx5-firmware-28.45.4028.txt")
    assert {line.rsplit(" ", 1)[1] for line in journal.splitlines()} == {"28.45.4028"}
    assert Cluster(*pair()).found("host.firmware") == []


def test_mixed_firmware_is_a_warning() -> None:
    head, peer = pair()
    for netdev in (F1, P2F1):
        peer.text(f"{RDMA}/{HCAS[netdev]}/fw_ver", "28.47.1088")
    (verdict,) = Cluster(head, peer).found("host.firmware")
    assert verdict.severity is Severity.WARNING
    assert (verdict.expected, verdict.seen) == ("28.45.4028, as on spark-1", "28.47.1088")
    assert "installs and flashes nothing" in verdict.fix


def test_an_installed_updater_is_a_warning() -> None:
    head, peer = pair()
    head.text("/var/lib/dpkg/info/mlnx-fw-updater.list", "/.")
    (verdict,) = Cluster(head, peer).found("host.fw_updater")
    assert (verdict.host, verdict.severity) == ("spark-1", Severity.WARNING)
