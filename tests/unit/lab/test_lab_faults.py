"""Faults are steps, planned from the fleet; running them is the fleet tests' part."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkfleet.errors import UsageError
from sparkfleet.lab.engine.requirements import FAULT_PACKAGES
from sparkfleet.lab.faults.catalogue import FAULTS, check_rail_count, find_fault
from sparkfleet.lab.faults.steps import IpBatch
from sparkfleet.lab.plan import plan_fleet


def _lines(kind: str, cables: str = "crossed", *, clear: bool = False) -> list[str]:
    fleet = plan_fleet(2, cables)
    fault = find_fault(kind)
    steps = (fault.repair if clear else fault.inject)(fleet, fleet.hosts[0])
    return [line for step in steps if isinstance(step, IpBatch) for line in step.lines]


def test_an_unknown_kind_lists_them_all_and_guesses() -> None:
    with pytest.raises(UsageError, match="fault 'link-dwn' not found") as caught:
        find_fault("link-dwn")
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("did you mean 'link-down'? ")
    assert all(kind in caught.value.hint for kind in FAULTS)


def test_a_cable_has_two_rails_and_two_ends() -> None:
    assert _lines("link-down") == [
        "link set 01enp1s0f1np1 down",
        "link set 02enp1s0f0np0 down",
        "link set 01enP2p1s0f1np1 down",
        "link set 02enP2p1s0f0np0 down",
    ]


def test_of_two_cables_the_first_is_pulled() -> None:
    assert {line.split()[2] for line in _lines("link-down", "both")} == {
        "01enp1s0f0np0",
        "02enp1s0f0np0",
        "01enP2p1s0f0np0",
        "02enP2p1s0f0np0",
    }


def test_on_a_switch_only_the_hosts_own_ports_go_dark() -> None:
    assert {line.split()[2] for line in _lines("link-down", "switch")} == {
        "01enp1s0f1np1",
        "01enP2p1s0f1np1",
    }


def test_readdressing_is_cleared_to_the_plan() -> None:
    assert _lines("wrong-subnet")[1] == "address add 10.78.101.1/24 brd + dev enp1s0f1np1"
    assert _lines("wrong-subnet", clear=True)[1] == "address add 10.78.1.1/24 brd + dev enp1s0f1np1"
    assert _lines("no-address") == ["address flush dev enp1s0f1np1 scope global"]
    assert _lines("duplicate-address")[1].split()[2] == "10.78.1.2/24"
    assert _lines("same-subnet")[1].split()[2:] == ["10.78.1.101/24", "brd", "+", "dev",
                                                    "enP2p1s0f1np1"]  # fmt: skip


@pytest.mark.parametrize("kind", FAULTS)
def test_every_fault_can_be_planned_both_ways_for_every_shape(kind: str) -> None:
    for hosts, cables in ((2, "crossed"), (2, "both"), (4, "ring"), (3, "switch")):
        fleet = plan_fleet(hosts, cables)
        for host in fleet.hosts:
            assert list(FAULTS[kind].inject(fleet, host))
            assert list(FAULTS[kind].repair(fleet, host))


@pytest.mark.parametrize("kind", FAULTS)
def test_every_fault_is_in_the_manual(kind: str) -> None:
    manual = (Path(__file__).parents[3] / "docs/lab.md").read_text()
    assert f"| `{kind}` | {FAULTS[kind].what} |" in manual


@pytest.mark.parametrize("kind", FAULTS)
def test_every_fault_says_what_it_does_and_needs_known_tools(kind: str) -> None:
    assert FAULTS[kind].what
    assert set(FAULTS[kind].needs) <= set(FAULT_PACKAGES)


def test_a_fault_of_a_rail_needs_a_cabled_host() -> None:
    (alone,) = plan_fleet(1).hosts
    with pytest.raises(UsageError, match="rail-down needs 2 cabled rails, and spark-01 has 0"):
        check_rail_count("rail-down", alone)
    check_rail_count("no-rdma", alone)
