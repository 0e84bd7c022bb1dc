"""The host that a log line is about, where it carries the address or the id of a Ray node; pure.

The head's log reports what happened to other nodes. Forms of Ray: ray-project/ray#45179, #54035,
#15128 (a node marked dead), ray-project/ray PR#30312 (out of memory), WM-PO/WMPO#3 (workers killed)
and ray-project/ray PR#58638 (a node that died).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

_ADDRESS = r"(?P<address>[0-9A-Fa-f.:]*[0-9A-Fa-f])"
_ID = r"(?P<id>[0-9a-f]{4,56})"
# Each with words that a match has, since a search for those takes a fraction of the time.
_SUBJECTS = tuple(
    (needle, re.compile(pattern))
    for needle, pattern in (
        (
            "node with node id",
            rf"\bnode with node id:? {_ID}(?: and (?:address|ip): {_ADDRESS})?",
        ),
        ("ode (IP: ", rf"\b[Nn]ode \(IP: {_ADDRESS}, ID: {_ID}\)"),
        ("ode (ID: ", rf"\b[Nn]ode \(ID: {_ID}, IP: {_ADDRESS}\)"),
        ("Node IP: ", rf"\bNode IP: {_ADDRESS}, node ID: {_ID}"),
        ('"custom_fields"', rf'"custom_fields":\{{"ip":"{_ADDRESS}","node_id":"{_ID}"'),
    )
)
NO_NODES: Mapping[str, str] = MappingProxyType({})


def find_subject(text: str, nodes: Mapping[str, str] = NO_NODES) -> str | None:
    """Return the address of the node that `text` is about, None where it names none.

    `nodes` maps ids of nodes to addresses, for a line with an id alone.
    """
    for needle, pattern in _SUBJECTS:
        match = pattern.search(text) if needle in text else None
        if match:
            return match["address"] or nodes.get(match["id"])
    return None


def map_node_ids(logs: Iterable[str]) -> Mapping[str, str]:
    """Return the address of each node whose id a line has next to it."""
    return {
        match["id"]: match["address"]
        for log in logs
        for needle, pattern in _SUBJECTS
        if needle in log
        for match in pattern.finditer(log)
        if match["address"]
    }
