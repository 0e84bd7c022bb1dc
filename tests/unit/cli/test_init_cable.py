"""`init --discover` over the cable: who counts as a Spark, and how it is reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.cli.init import cable_search
from sparkfleet.cli.init.cable_search import (
    CableEnd,
    build_peer,
    find_management_address,
    list_cable_ends,
)
from sparkfleet.facts import HostFacts
from sparkfleet.model import Host, Value
from sparkfleet.remote.host_keys import OfferedKey
from sparkfleet.remote.known_hosts import KeyVerdict
from tests import gb10

END = CableEnd(netdev="enp1s0f1np1", address="fe80::1:2", mac="02:00:00:00:00:01")
KEY = OfferedKey(kind="ssh-ed25519", key=b"one")
OTHER = OfferedKey(kind="ssh-ed25519", key=b"another")


def _first(**variables: Any) -> Host:
    values = {"ansible_host": "192.168.1.1", "ansible_user": "nvidia", **variables}
    return Host(name="spark1", vars={name: Value(data=data) for name, data in values.items()})


def _facts() -> HostFacts:
    return gb10.pair()[1].facts()


def test_a_peer_is_reached_through_the_first_spark() -> None:
    peer = build_peer(_first(ansible_port=2222), END, number=2)
    assert peer.address == "fe80::1:2%enp1s0f1np1"
    assert peer.get("ansible_ssh_common_args") == "-o ProxyJump=nvidia@192.168.1.1:2222"
    assert peer.get("ansible_user") == "nvidia"
    here = build_peer(_first(ansible_connection="local"), END, number=2)
    assert here.get("ansible_ssh_common_args") is None


def test_only_link_local_addresses_count() -> None:
    answer = {"enp1s0f1np1": {END.mac: END.address, "02:00:00:00:00:02": "fd00::1"}}
    assert list(list_cable_ends(answer)) == [END]


def test_the_management_address_is_not_one_of_a_rail() -> None:
    facts = _facts()
    assert find_management_address(facts) == "192.168.1.2"
    rails_only = tuple(dev for dev in facts.netdevs if "np" in dev.name)
    assert find_management_address(replace(facts, netdevs=rails_only)) == ""


@pytest.fixture
def prove(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[Host]]:
    """Prove a peer whose keys over the cable and at its address the test gives."""
    monkeypatch.setenv("HOME", str(tmp_path))

    def call(facts: HostFacts, cabled: OfferedKey, managed: OfferedKey) -> list[Host]:
        keys = iter((cabled, managed))
        monkeypatch.setattr(cable_search, "fetch_host_key", lambda _: next(keys))
        monkeypatch.setattr(cable_search, "read_target_keys", lambda _: _Known())
        monkeypatch.setattr(cable_search, "add_known_key", lambda *_: None)
        return list(cable_search._prove_peer(build_peer(_first(), END, number=2), facts))

    return call


class _Known:
    """No known key."""

    types = ()

    def judge(self, *_: object) -> KeyVerdict:
        return KeyVerdict.UNKNOWN


def test_a_peer_with_the_same_key_at_its_address_is_taken(
    prove: Callable[..., list[Host]],
) -> None:
    (host,) = prove(_facts(), KEY, KEY)
    assert host.address == "192.168.1.2"
    assert host.get("ansible_ssh_common_args") is None


def test_another_machine_at_that_address_is_left_out(
    prove: Callable[..., list[Host]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert prove(_facts(), KEY, OTHER) == []
    assert f"another host key: {OTHER.fingerprint}" in capsys.readouterr().out


def test_a_machine_without_a_gb10_is_left_out(
    prove: Callable[..., list[Host]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert prove(replace(_facts(), gpus=()), KEY, KEY) == []
    assert "left out: not a DGX Spark: expected a GB10, saw no GPU" in capsys.readouterr().out
