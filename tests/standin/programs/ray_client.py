"""The part of the module `ray` that is asked which nodes there are."""

from __future__ import annotations

from typing import Any

from . import wire

_HEAD: list[tuple[str, int]] = []


def init(address: str, **_: Any) -> None:
    """Remember the head; raises ConnectionError if none answers."""
    host, _colon, port = address.rpartition(":")
    wire.call(host, int(port), patience=2.0)
    _HEAD[:] = [(host, int(port))]


def nodes() -> list[dict[str, Any]]:
    """Return Ray's table of nodes, as far as we read it."""
    peer = wire.call(*_HEAD[0], patience=2.0)
    peer.send(do="nodes")
    table = next(iter(peer.messages()))["nodes"]
    return [
        {
            "NodeID": f"{number:056x}",
            "NodeManagerAddress": address,
            "Alive": alive,
            "Resources": {"CPU": 1.0, **({"GPU": gpus} if gpus else {})},
        }
        for number, (address, gpus, alive) in enumerate(table)
    ]
