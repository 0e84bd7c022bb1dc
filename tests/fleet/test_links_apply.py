"""`links.apply` from bare hosts: applied, proven, kept and reverted; and undone by every fault."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from functools import partial

import pytest

from sparkfleet.lab import fleet
from sparkfleet.lab.fleet import LabFleet
from tests.bare_hosts import (
    LAB,
    PAIR,
    apply_with,
    go_on,
    is_pending,
    read_state,
    read_states,
    run_on_host,
    type_command,
)
from tests.commandline import Child, becomes, started

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]

CX7 = "/etc/netplan/40-cx7.yaml"


@pytest.fixture(scope="module")
def pair() -> Iterator[LabFleet]:
    yield fleet.start_fleet(2, separate_wires=False, bare=True)
    fleet.remove_fleet()


def _list_gids(hca: str) -> list[str]:
    """Return the ends of the RoCE v2 GIDs of IPv4 addresses, in the order of the table."""
    folder = f"/sys/class/infiniband/{hca}/ports/1/gids"
    text = run_on_host("spark-01", "sh", "-c", f"for at in 3 5 7 9; do cat {folder}/$at; done")
    return [line[-9:] for line in text.split() if ":ffff:" in line]


def _has_gids(hca: str, ends: list[str]) -> bool:
    return _list_gids(hca) == ends


def test_a_bare_pair_is_configured_and_reverted_byte_for_byte(pair: LabFleet) -> None:
    before = read_states()
    shown = type_command("links.plan")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "192.168.101.11/24" in shown.stdout
    assert '+      addresses: ["192.168.100.10/24"]' in shown.stdout
    assert read_states() == before

    unasked = type_command("links.apply")
    assert "nothing was changed; to make these changes: --yes" in unasked.stdout
    assert read_states() == before

    done = type_command("links.apply", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "spark-02: kept" in done.stdout
    assert "192.168.100.11/24" in run_on_host("spark-02", "cat", CX7)
    verified = type_command("links.verify")
    assert verified.returncode == 0, verified.stdout

    configured = read_states()
    again = type_command("links.apply", "--yes")
    assert (again.returncode, "nothing to change" in again.stdout) == (0, True)
    assert read_states() == configured

    fleet.set_fault("spark-02", "power-off")
    fleet.set_fault("spark-02", "power-off", clear=True)
    assert becomes(lambda: read_state("spark-02") == configured["spark-02"])

    reverted = type_command("links.revert", "--yes")
    assert reverted.returncode == 0, reverted.stdout + reverted.stderr
    assert read_states() == before
    assert "no host has anything to restore" in type_command("links.revert").stdout


def test_nothing_is_applied_while_a_run_is_in_progress(pair: LabFleet) -> None:
    before = read_states()
    with started("cluster.lock", *LAB) as holder:
        assert holder.stdout is not None
        lines = (holder.stdout.readline(), holder.stdout.readline())
        refused = type_command("links.apply", "--yes")
        holder.send_signal(signal.SIGINT)
        holder.stdout.read()
    assert "is locked on spark-01, spark-02" in lines[1]
    assert refused.returncode == 75, refused.stdout + refused.stderr
    assert "a run is in progress on cluster default" in refused.stdout + refused.stderr
    assert read_states() == before


def test_the_fix_of_arp_flux_is_applied_and_reverted(pair: LabFleet) -> None:
    before = read_states()
    assert type_command("links.apply", "--yes", "--arp").returncode == 0
    assert run_on_host("spark-01", "cat", "/proc/sys/net/ipv4/conf/all/arp_ignore") == "1\n"
    assert "link.arp_flux" not in type_command("links.verify").stdout
    assert type_command("links.revert", "--yes").returncode == 0
    assert run_on_host("spark-01", "cat", "/proc/sys/net/ipv4/conf/all/arp_ignore") == "0\n"
    assert read_states() == before


def test_a_wrong_cable_while_applying_is_undone(pair: LabFleet) -> None:
    # The kernel gives an interface its IPv6 address at its first carrier, and never removes it.
    fleet.set_fault("spark-02", "swapped-cages")
    read_states()
    fleet.set_fault("spark-02", "swapped-cages", clear=True)
    before = read_states()

    def replug(child: Child) -> None:
        fleet.set_fault("spark-02", "swapped-cages")
        go_on(child)

    code, output = apply_with(replug)
    fleet.set_fault("spark-02", "swapped-cages", clear=True)
    assert code == 2, output
    assert "spark-01: as before" in output
    assert "spark-02: as before" in output
    assert read_states() == before


def test_a_host_that_is_lost_while_applying_undoes_it_by_itself(pair: LabFleet) -> None:
    before = read_states()

    def cut(child: Child) -> None:
        fleet.set_fault("spark-02", "management-lost")
        go_on(child)
        assert becomes(lambda: not is_pending("spark-02"))
        fleet.set_fault("spark-02", "management-lost", clear=True)

    code, output = apply_with(cut)
    assert code == 2, output
    assert "spark-02: as before" in output
    assert read_states() == before


def test_a_host_that_is_killed_while_applying_boots_as_it_was(pair: LabFleet) -> None:
    before = read_states()

    def kill(child: Child) -> None:
        fleet.set_fault("spark-02", "power-off")
        go_on(child)
        fleet.set_fault("spark-02", "power-off", clear=True)

    code, output = apply_with(kill)
    assert code == 2, output
    assert becomes(lambda: read_states() == before)


def test_the_timers_undo_it_when_the_control_machine_is_lost(pair: LabFleet) -> None:
    before = read_states()
    code, _ = apply_with(lambda child: child.kill())
    assert code == -signal.SIGKILL
    assert becomes(lambda: not any(map(is_pending, PAIR)))
    assert read_states() == before


@pytest.mark.thorough
def test_ctrl_c_while_applying_undoes_it_on_all_hosts(pair: LabFleet) -> None:
    before = read_states()

    def interrupt(child: Child) -> None:
        child.send_signal(signal.SIGINT)
        go_on(child)

    code, output = apply_with(interrupt)
    assert code == 130, output
    assert "interrupted: undoing the change" in output
    assert not any(map(is_pending, PAIR))
    assert read_states() == before


@pytest.mark.thorough
def test_a_moved_gid_is_repaired(pair: LabFleet) -> None:
    before = read_states()
    assert type_command("links.apply", "--yes").returncode == 0
    rail = "enp1s0f1np1"
    address = "192.168.100.10/24"
    first = "0a09:0908"  # of the table of GIDs
    second = "0a09:0909"
    own = "c0a8:640a"
    for words, listed in (
        ("add 10.9.9.8/32", [own, first]),
        (f"del {address}", [first]),
        ("add 10.9.9.9/32", [second, first]),
        (f"add {address} brd +", [second, first, own]),
        ("del 10.9.9.8/32", [second, own]),
        ("del 10.9.9.9/32", [own]),
    ):
        fleet.run_on("spark-01", ["ip", "addr", *words.split(), "dev", rail])
        assert becomes(partial(_has_gids, "rocep1s0f1", listed))
    shown = type_command("links.repair")
    assert f"spark-01 {rail} (rocep1s0f1): RoCE v2 GID at index 7" in shown.stdout
    repaired = type_command("links.repair", "--yes")
    assert repaired.returncode == 0, repaired.stdout + repaired.stderr
    assert "nothing to repair" in type_command("links.repair").stdout
    assert type_command("links.revert", "--yes").returncode == 0
    assert read_states() == before


@pytest.mark.parametrize(
    ("hosts", "cables", "rails"),
    [
        (3, "ring", 12),
        pytest.param(2, "both", 8, marks=pytest.mark.thorough),
        pytest.param(4, "switch", 8, marks=pytest.mark.thorough),
    ],
)
def test_other_cablings_are_configured(hosts: int, cables: str, rails: int) -> None:
    chosen: list[str] = []
    try:
        fleet.start_fleet(hosts, cables=cables, separate_wires=False, bare=True)
        done = type_command("links.apply", "--yes", "--output", "json")
        document = json.loads(done.stdout)
        assert (done.returncode, document["changed"]) == (0, True), document
        assert len(document["rails"]) == rails
        if cables == "both":  # which of the two is used is the inventory's to say
            assert "two cages reach the same peers" in type_command("links.verify").stdout
            names = sorted({rail["netdev"] for rail in document["rails"]})
            chosen = ["--set", f"link_interfaces=[{', '.join(names)}]"]
        verified = type_command("links.verify", *chosen)
        assert verified.returncode == 0, verified.stdout
    finally:
        fleet.remove_fleet()
