"""The host that a log line is about, where it carries the address or the id of a Ray node; pure.

The head's log reports what happened to other nodes. Forms of Ray: ray-project/ray#45179, #54035,
#15128 (a node marked dead), ray-project/ray PR#30312 (out of memory), WM-PO/WMPO#3 (workers killed)
and ray-project/ray PR#58638 (a node that died).
"""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from sparkfleet.vllm.milestones import LogLine

_ADDRESS = r"(?P<address>[0-9A-Fa-f.:]*[0-9A-Fa-f])"
_ID = r"(?P<id>[0-9a-f]{4,56})"
# Each with words that a match has, since a search for those takes a fraction of the time, and the
# most characters of a match before them.
_SUBJECTS = tuple(
    (needle, before, re.compile(pattern))
    for needle, before, pattern in (
        (
            "node with node id",
            0,
            rf"\bnode with node id:? {_ID}(?: and (?:address|ip): {_ADDRESS})?",
        ),
        ("ode (IP: ", 1, rf"\b[Nn]ode \(IP: {_ADDRESS}, ID: {_ID}\)"),
        ("ode (ID: ", 1, rf"\b[Nn]ode \(ID: {_ID}, IP: {_ADDRESS}\)"),
        ("Node IP: ", 0, rf"\bNode IP: {_ADDRESS}, node ID: {_ID}"),
        (
            '"custom_fields"',
            0,
            rf'"custom_fields":\{{"ip":"{_ADDRESS}","node_id":"{_ID}"',
        ),
    )
)
_MEMORY_OF_NODE = "Memory on the node ("
_TASK = "RayTaskError("
_RAY_TASK = re.compile(r"RayTaskError\(.{0,1000}\(pid=\d+, ip=(?P<address>[^\s,)]+)")
LONGEST_TRACEBACK = 200  # lines
NO_NODES: Mapping[str, str] = MappingProxyType({})


def find_subject(text: str, nodes: Mapping[str, str] = NO_NODES) -> str | None:
    """Return the address of the node that `text` is about, None where it names none.

    `nodes` maps ids of nodes to addresses, for a line with an id alone.
    """
    for needle, _, pattern in _SUBJECTS:
        match = pattern.search(text) if needle in text else None
        if match:
            return match["address"] or nodes.get(match["id"])
    return None


def map_node_ids(logs: Iterable[str]) -> Mapping[str, str]:
    """Return the address of each node whose id a line has next to it."""
    return {
        match["id"]: match["address"]
        for log in logs
        for needle, before, pattern in _SUBJECTS
        for match in _find_near(needle, before, pattern, log)
        if match["address"]
    }


def _find_near(
    needle: str, before: int, pattern: re.Pattern[str], log: str
) -> Iterator[re.Match[str]]:
    """Yield the matches of `pattern`, which begin `before` characters before a `needle`."""
    at = log.find(needle)
    while at >= 0:
        match = pattern.match(log, at - before) if at >= before else None
        if match:
            yield match
        at = log.find(needle, at + len(needle))


class LineSubjects:
    """The address of the host that each line of a log is about; only those asked for are read."""

    def __init__(
        self, entries: Sequence[LogLine], text: str, nodes: Mapping[str, str] = NO_NODES
    ) -> None:
        """Take the lines of a log, their `text` together, and the addresses of ids of nodes."""
        self._entries = entries
        self._nodes = nodes
        self._has_tasks = _TASK in text
        self._found: dict[int, str | None] = {}
        # Where no line names an address, all are about the host of the log.
        self.has_none = not (
            self._has_tasks
            or any(needle in text for needle, *_ in _SUBJECTS)
            or any(entry.address for entry in entries)
        )

    def find_address(self, index: int) -> str | None:
        """Return the address that a line (from 0) is about, None for the host of the log."""
        if self.has_none:
            return None
        if index not in self._found:
            self._found[index] = (
                find_subject(self._read_message(index), self._nodes)
                or self._entries[index].address
                or self._find_task_address(index)
            )
        return self._found[index]

    def _read_message(self, index: int) -> str:
        """Return a line; of Ray's OutOfMemoryError with the next one, which names the node."""
        lines = [entry.text for entry in self._entries[index : index + 2]]
        return "\n".join(lines if lines[-1].startswith(_MEMORY_OF_NODE) else lines[:1])

    def _find_task_address(self, index: int) -> str | None:
        """Return the address of the Ray task whose traceback ends at `index`, None if none does.

        The driver prints the exception of a remote task without the prefix of its host; the first
        line of the traceback has the address.
        """
        if not self._has_tasks:
            return None
        at = bisect.bisect_left(self._heads, index) - 1
        if at < 0 or self._heads[at] < index - LONGEST_TRACEBACK:
            return None
        task = _RAY_TASK.search(self._entries[self._heads[at]].text)
        return task["address"] if task else None

    @functools.cached_property
    def _heads(self) -> Sequence[int]:
        """The lines that end a search for the first line of a traceback: its own, or another."""
        return [
            index
            for index, entry in enumerate(self._entries)
            if entry.text[:1].strip() or (_TASK in entry.text and _RAY_TASK.search(entry.text))
        ]
