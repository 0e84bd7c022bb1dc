"""Answers about wires become part of addresses and commands, so each part is checked."""

from __future__ import annotations

from typing import Any

import pytest

from sparkfleet.links.answers import parse_wires
from sparkfleet.remote.answers import SHAPE_ERRORS

NETDEV, MAC, ADDRESS = "enp1s0f1np1", "02:00:00:00:00:01", "fe80::1:2"
HARM = "$(touch x)"


def _answer(netdev: Any = NETDEV, mac: Any = MAC, address: Any = ADDRESS) -> dict[str, Any]:
    return {"addresses": {netdev: {mac: address}}, "server": "192.168.1.2", "ends": {}}


def test_machines_are_listed_by_their_wire() -> None:
    found = parse_wires(_answer(), netdevs=[NETDEV])
    assert found.ends == {NETDEV: (MAC,)}
    assert found.addresses == {NETDEV: {MAC: ADDRESS}}
    assert found.server == "192.168.1.2"


@pytest.mark.parametrize(
    "changed",
    [
        {"netdev": HARM},
        {"netdev": "eth9"},
        {"netdev": "-oProxyCommand"},
        {"mac": HARM},
        {"mac": ""},
        {"address": f"fe80::1%{HARM}"},
        {"address": "fe80::1%eth0"},
        {"address": HARM},
        {"address": 1},
        {"address": None},
        {"address": "10.0.0.1"},
    ],
    ids=str,
)
def test_other_texts_than_addresses_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(SHAPE_ERRORS):
        parse_wires(_answer(**changed), netdevs=[NETDEV, HARM, "-oProxyCommand"])


@pytest.mark.parametrize(
    "answer",
    [{}, {"addresses": []}, {"addresses": {NETDEV: []}}, {**_answer(), "server": HARM}],
    ids=["empty", "list", "list of a wire", "server"],
)
def test_an_answer_of_another_shape_is_refused(answer: dict[str, Any]) -> None:
    with pytest.raises(SHAPE_ERRORS):
        parse_wires(answer, netdevs=[NETDEV])
