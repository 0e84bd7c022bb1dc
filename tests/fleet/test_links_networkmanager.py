"""`links.apply` on hosts whose rails belong to the real NetworkManager."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from sparkfleet.lab import fleet
from sparkfleet.lab.engine.requirements import NETWORKMANAGER_PACKAGES, find_tool
from sparkfleet.lab.fleet import LabFleet
from tests.bare_hosts import (
    PAIR,
    apply_with,
    go_on,
    is_pending,
    read_states,
    run_on_host,
    type_command,
)
from tests.commandline import Child, becomes

MISSING = [tool for tool in NETWORKMANAGER_PACKAGES if not find_tool(tool)]
pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]

KEYFILE = "/etc/NetworkManager/system-connections/sparkfleet-enp1s0f1np1.nmconnection"


@pytest.fixture(scope="module")
def pair() -> Iterator[LabFleet]:
    yield fleet.start_fleet(2, bare=True, networkmanager=True)
    fleet.remove_fleet()


def _list_connections(host: str) -> str:
    return run_on_host(host, "nmcli", "-t", "-f", "DEVICE,CONNECTION", "device")


def _has_named_itself(host: str) -> bool:
    """Return whether each rail with a link has its IPv6 address; NetworkManager takes its time."""
    lines = run_on_host(host, "ip", "-o", "-6", "addr", "show", "scope", "link").splitlines()
    return sum("np" in line and "tentative" not in line for line in lines) == 2


def _settled_states() -> object:
    assert becomes(lambda: all(map(_has_named_itself, PAIR)))
    return read_states()


def test_keyfiles_are_written_and_reverted_byte_for_byte(pair: LabFleet) -> None:
    before = _settled_states()
    done = type_command("links.apply", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "address1=192.168.100.10/24" in run_on_host("spark-01", "cat", KEYFILE)
    assert "enp1s0f1np1:sparkfleet-enp1s0f1np1" in _list_connections("spark-01")
    verified = type_command("links.verify")
    assert verified.returncode == 0, verified.stdout

    again = type_command("links.apply", "--yes")
    assert (again.returncode, "nothing to change" in again.stdout) == (0, True)

    reverted = type_command("links.revert", "--yes")
    assert reverted.returncode == 0, reverted.stdout + reverted.stderr
    assert becomes(lambda: _settled_states() == before)


@pytest.mark.thorough
def test_default_profiles_are_back_at_the_boot_after_a_revert(pair: LabFleet) -> None:
    assert type_command("links.apply", "--yes").returncode == 0
    _reboot("spark-01")
    assert becomes(lambda: "192.168.100.10/24" in run_on_host("spark-01", "ip", "addr"))
    assert type_command("links.revert", "--yes").returncode == 0
    assert "192.168" not in run_on_host("spark-01", "ip", "addr")
    _reboot("spark-01")
    assert becomes(lambda: all(map(_has_named_itself, PAIR)))


def _reboot(host: str) -> None:
    fleet.set_fault(host, "power-off")
    fleet.set_fault(host, "power-off", clear=True)


@pytest.mark.thorough
def test_a_host_of_networkmanager_that_is_lost_undoes_it_by_itself(pair: LabFleet) -> None:
    before = _settled_states()

    def cut(child: Child) -> None:
        fleet.set_fault("spark-02", "management-lost")
        go_on(child)
        assert becomes(lambda: not is_pending("spark-02"))
        fleet.set_fault("spark-02", "management-lost", clear=True)

    code, output = apply_with(cut)
    assert code == 2, output
    assert "spark-02: as before" in output
    assert becomes(lambda: _settled_states() == before)


@pytest.mark.thorough
def test_the_timers_undo_profiles_when_the_control_machine_is_lost(pair: LabFleet) -> None:
    before = _settled_states()
    code, _ = apply_with(lambda child: child.kill())
    assert code == -signal.SIGKILL
    assert becomes(lambda: not any(map(is_pending, PAIR)))
    assert becomes(lambda: _settled_states() == before)
