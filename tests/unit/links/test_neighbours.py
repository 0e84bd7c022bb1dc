"""A wire is asked until a peer answers, and not before an address may be used."""

from __future__ import annotations

import json
from collections.abc import Callable
from subprocess import CompletedProcess
from typing import Any

import pytest

from sparkfleet.onhost.fabric import neighbours

OWN, TWIN, PEER = (f"02:00:00:00:00:0{n}" for n in (1, 2, 9))
RAIL = "enp1s0f1np1"


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Set what `ip` shows, look by look; return the list of what was asked."""

    def set_wire(tentative: list[str], answers: list[list[str]]) -> list[str]:
        asked: list[str] = []

        def run(argv: tuple[str, ...], **_: Any) -> CompletedProcess[bytes]:
            if "tentative" in argv:
                asked.append("address")
                return CompletedProcess(argv, 0, tentative.pop(0).encode())
            entries = [{"lladdr": mac, "dst": f"fe80::{mac[-1]}"} for mac in answers.pop(0)]
            return CompletedProcess(argv, 0, json.dumps(entries).encode())

        monkeypatch.setattr(neighbours, "run_ping", lambda *_, **__: asked.append("ping"))
        monkeypatch.setattr("sparkfleet.onhost.fabric.neighbours.subprocess.run", run)
        monkeypatch.setattr(neighbours, "read_own_macs", lambda: {OWN, TWIN})
        monkeypatch.setattr(neighbours, "TICK", 0.0)
        return asked

    return set_wire


def test_a_wire_is_asked_once_its_address_may_be_used(wire: Callable[..., list[str]]) -> None:
    asked = wire(["fe80::1/64 scope link tentative", ""], [[TWIN, PEER]])
    assert neighbours.find_neighbours(RAIL) == {TWIN: "fe80::2", PEER: "fe80::9"}
    assert asked == ["address", "address", "ping"]


def test_a_wire_is_asked_again_until_another_host_answers(wire: Callable[..., list[str]]) -> None:
    asked = wire([""], [[], [TWIN], [TWIN, PEER]])
    assert neighbours.find_neighbours(RAIL) == {TWIN: "fe80::2", PEER: "fe80::9"}
    assert asked == ["address", *["ping"] * 3]


def test_a_wire_without_another_host_is_asked_three_times(wire: Callable[..., list[str]]) -> None:
    asked = wire([""], [[TWIN]] * 5)
    assert neighbours.find_neighbours(RAIL) == {TWIN: "fe80::2"}
    assert asked == ["address", *["ping"] * 3]


def test_an_address_that_another_host_has_too_is_not_waited_for(
    wire: Callable[..., list[str]],
) -> None:
    asked = wire(["fe80::1/64 scope link tentative dadfailed"], [[PEER]])
    assert neighbours.find_neighbours(RAIL) == {PEER: "fe80::9"}
    assert asked == ["address", "ping"]


def test_the_own_mac_addresses_are_those_of_this_machine() -> None:
    assert "00:00:00:00:00:00" in neighbours.read_own_macs()  # loopback
