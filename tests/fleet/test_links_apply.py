"""`links.apply` from bare hosts: applied, proven, kept and reverted; and undone by every fault."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping

import pytest

from sparkfleet.lab import fleet
from sparkfleet.lab.fleet import LabFleet
from sparkfleet.lab.paths import INVENTORY
from tests.commandline import Child, becomes, command_line, started

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]

PAIR = ("spark-01", "spark-02")
CX7 = "/etc/netplan/40-cx7.yaml"
LAB = ("--inventory", str(INVENTORY))
TRIED = "tried; each host undoes it"
TIMER = ("--revert-after", "15")
FILES = (
    "find /etc/netplan /run/netplan /etc/sysctl.d -type f -exec stat -c '%n %a' {} + -exec cat {} +"
)


@pytest.fixture(scope="module")
def pair() -> Iterator[LabFleet]:
    yield fleet.start_fleet(2, separate_wires=False, bare=True)
    fleet.remove_fleet()


def _type(*words: str) -> subprocess.CompletedProcess[str]:
    argv = command_line(*words, *LAB)
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def _run_on(host: str, *argv: str) -> str:
    return fleet.run_on(host, argv, check=False).stdout


def _is_quiet(host: str) -> bool:
    """Return whether each address is proven to be unique, and each link is up or dark."""
    text = _run_on(host, "ip", "-j", "addr")
    return bool(text) and "tentative" not in text and "LOWERLAYERDOWN" not in text


def _state(host: str) -> tuple[str, list[dict[str, object]]]:
    """Return the files of the network of a host, with their modes, and its addresses."""
    assert becomes(lambda: _is_quiet(host))
    files = _run_on(host, "sh", "-c", f"{FILES} 2>/dev/null")
    return files, json.loads(_run_on(host, "ip", "-j", "addr"))


def _states() -> Mapping[str, object]:
    return {host: _state(host) for host in PAIR}


def _is_pending(host: str) -> bool:
    return "pending.json" in _run_on(host, "ls", "/run/sparkfleet-links")


def _list_gids(hca: str) -> list[str]:
    """Return the ends of the RoCE v2 GIDs of IPv4 addresses, in the order of the table."""
    folder = f"/sys/class/infiniband/{hca}/ports/1/gids"
    text = _run_on("spark-01", "sh", "-c", f"for at in 3 5 7 9; do cat {folder}/$at; done")
    return [line[-9:] for line in text.split() if ":ffff:" in line]


def _apply_with(deed: Callable[[Child], object]) -> tuple[int, str]:
    """Apply, do `deed` once the change is tried on all hosts, and return exit code and output."""
    lines = []
    with started("links.apply", "--yes", *TIMER, *LAB, marks=[TRIED]) as child:
        assert child.stdout is not None
        for line in child.stdout:
            lines.append(line)
            if TRIED in line:
                os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
                assert all(_is_pending(host) for host in PAIR)
                try:
                    deed(child)
                except BaseException:
                    child.kill()  # it may be stopped
                    raise
        return child.wait(), "".join(lines)


def _go_on(child: Child) -> None:
    child.send_signal(signal.SIGCONT)


def test_a_bare_pair_is_configured_and_reverted_byte_for_byte(pair: LabFleet) -> None:
    before = _states()
    shown = _type("links.plan")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "192.168.101.11/24" in shown.stdout
    assert '+      addresses: ["192.168.100.10/24"]' in shown.stdout
    assert _states() == before

    unasked = _type("links.apply")
    assert "nothing was changed; to make these changes: --yes" in unasked.stdout
    assert _states() == before

    done = _type("links.apply", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "spark-02: kept" in done.stdout
    assert "192.168.100.11/24" in _run_on("spark-02", "cat", CX7)
    verified = _type("links.verify")
    assert verified.returncode == 0, verified.stdout

    configured = _states()
    again = _type("links.apply", "--yes")
    assert (again.returncode, "nothing to change" in again.stdout) == (0, True)
    assert _states() == configured

    fleet.set_fault("spark-02", "power-off")
    fleet.set_fault("spark-02", "power-off", clear=True)
    assert becomes(lambda: _state("spark-02") == configured["spark-02"])

    reverted = _type("links.revert", "--yes")
    assert reverted.returncode == 0, reverted.stdout + reverted.stderr
    assert _states() == before
    assert "no host has anything to restore" in _type("links.revert").stdout


def test_the_fix_of_arp_flux_is_applied_and_reverted(pair: LabFleet) -> None:
    before = _states()
    assert _type("links.apply", "--yes", "--arp").returncode == 0
    assert _run_on("spark-01", "cat", "/proc/sys/net/ipv4/conf/all/arp_ignore") == "1\n"
    assert "link.arp_flux" not in _type("links.verify").stdout
    assert _type("links.revert", "--yes").returncode == 0
    assert _run_on("spark-01", "cat", "/proc/sys/net/ipv4/conf/all/arp_ignore") == "0\n"
    assert _states() == before


def test_a_wrong_cable_while_applying_is_undone(pair: LabFleet) -> None:
    # The kernel gives an interface its IPv6 address at its first carrier, and never removes it.
    fleet.set_fault("spark-02", "swapped-cages")
    _states()
    fleet.set_fault("spark-02", "swapped-cages", clear=True)
    before = _states()

    def replug(child: Child) -> None:
        fleet.set_fault("spark-02", "swapped-cages")
        _go_on(child)

    code, output = _apply_with(replug)
    fleet.set_fault("spark-02", "swapped-cages", clear=True)
    assert code == 2, output
    assert "spark-01: as before" in output
    assert "spark-02: as before" in output
    assert _states() == before


def test_a_host_that_is_lost_while_applying_undoes_it_by_itself(pair: LabFleet) -> None:
    before = _states()

    def cut(child: Child) -> None:
        fleet.set_fault("spark-02", "management-lost")
        _go_on(child)
        assert becomes(lambda: not _is_pending("spark-02"))
        fleet.set_fault("spark-02", "management-lost", clear=True)

    code, output = _apply_with(cut)
    assert code == 2, output
    assert "spark-02: as before" in output
    assert _states() == before


def test_a_host_that_is_killed_while_applying_boots_as_it_was(pair: LabFleet) -> None:
    before = _states()

    def kill(child: Child) -> None:
        fleet.set_fault("spark-02", "power-off")
        _go_on(child)
        fleet.set_fault("spark-02", "power-off", clear=True)

    code, output = _apply_with(kill)
    assert code == 2, output
    assert becomes(lambda: _states() == before)


def test_the_timers_undo_it_when_the_control_machine_is_lost(pair: LabFleet) -> None:
    before = _states()
    code, _ = _apply_with(lambda child: child.kill())
    assert code == -signal.SIGKILL
    assert becomes(lambda: not any(map(_is_pending, PAIR)))
    assert _states() == before


def test_a_moved_gid_is_repaired(pair: LabFleet) -> None:
    before = _states()
    assert _type("links.apply", "--yes").returncode == 0
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
        assert becomes(lambda listed=listed: _list_gids("rocep1s0f1") == listed)  # type: ignore[misc]
    shown = _type("links.repair")
    assert f"spark-01 {rail} (rocep1s0f1): RoCE v2 GID at index 7" in shown.stdout
    repaired = _type("links.repair", "--yes")
    assert repaired.returncode == 0, repaired.stdout + repaired.stderr
    assert "nothing to repair" in _type("links.repair").stdout
    assert _type("links.revert", "--yes").returncode == 0
    assert _states() == before


@pytest.mark.parametrize(
    ("hosts", "cables", "rails"),
    [
        (3, "ring", 12),
        pytest.param(2, "both", 8, marks=pytest.mark.thorough),
        pytest.param(4, "switch", 8, marks=pytest.mark.thorough),
    ],
)
def test_other_cablings_are_configured(hosts: int, cables: str, rails: int) -> None:
    try:
        fleet.start_fleet(hosts, cables=cables, separate_wires=False, bare=True)
        done = _type("links.apply", "--yes", "--output", "json")
        document = json.loads(done.stdout)
        assert (done.returncode, document["changed"]) == (0, True), document
        assert len(document["rails"]) == rails
        assert _type("links.plan").returncode == 0
    finally:
        fleet.remove_fleet()
