"""The inventory while its files are read: hosts, groups and every problem found so far."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn, TypeAlias

from sparkfleet.errors import InventoryError, Problem, Where
from sparkfleet.inventory.files.ranges import expand_host_range
from sparkfleet.model import Value

MAX_HOSTS = 65536
MAX_DEPTH = 100  # levels of groups
ADDRESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:%-]*")  # a name, IPv4, IPv6 with its zone

Variables: TypeAlias = dict[str, Value]


@dataclass(slots=True, kw_only=True)
class HostEntry:
    """A host as the files name it, with the variables next to its name."""

    name: str
    where: Where
    vars: Variables = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class GroupEntry:
    """A group as the files name it: direct hosts and children in order, variables, priority."""

    name: str
    hosts: dict[str, None] = field(default_factory=dict)
    children: dict[str, None] = field(default_factory=dict)
    vars: Variables = field(default_factory=dict)
    priority: int = 1


class InventoryTree:
    """The hosts and groups read so far; like Ansible's, it starts with `all` and `ungrouped`."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.hosts: dict[str, HostEntry] = {}
        self.groups: dict[str, GroupEntry] = {}
        self.parents: dict[str, set[str]] = {}
        self.depths: dict[str, int] = {}  # known once the tree is finished
        self._edges: dict[tuple[str, str], Where] = {}
        self.origin: Variables = {}  # what every host of the file being read knows of it
        self.encrypted: list[str] = []  # files and variables of Sparks that were passed over
        self._full = False  # whether there are more hosts than MAX_HOSTS, which is said once
        self.add_group("all")
        self.add_group("ungrouped")
        self._attach_child("all", "ungrouped")

    def add_problem(self, message: str, where: Where, hint: str | None = None) -> None:
        """Keep a problem, so that all of them are reported at once."""
        self.problems.append(Problem(message=message, where=where, hint=hint))

    def add_group(self, name: str) -> GroupEntry:
        """Return the group `name`, making it if it is new."""
        if name not in self.groups:
            self.groups[name] = GroupEntry(name=name)
            self.parents[name] = set()
        return self.groups[name]

    def add_hosts(self, pattern: str, group: str, where: Where) -> list[HostEntry]:
        """Put the hosts of `pattern` (``spark[01:16]``, ``name:2222``) into `group`."""
        try:
            names, port = expand_host_range(pattern)
        except ValueError as failure:
            self.add_problem(f"host {pattern!r}: {failure}", where)
            return []
        if len(self.hosts) + len(names) > MAX_HOSTS:
            if not self._full:
                self.add_problem(f"more than {MAX_HOSTS} hosts", where)
            self._full = True
            return []
        self.groups[group].hosts.update(dict.fromkeys(names))
        return [self._host(name, port, where) for name in names]

    def _host(self, name: str, port: int | None, where: Where) -> HostEntry:
        if name not in self.hosts:
            if not ADDRESS.fullmatch(name):
                message = f"{name!r} is not a valid host name: use letters, digits and . _ -"
                self.add_problem(message, where, "put the address into ansible_host")
            self.hosts[name] = HostEntry(name=name, where=where, vars=dict(self.origin))
            if port:
                self.hosts[name].vars["ansible_port"] = Value(data=port, where=where)
        return self.hosts[name]

    def add_child(self, parent: str, child: str, where: Where) -> None:
        """Make the group `child` a child of `parent`; `finish` finds loops."""
        if child in (parent, "all"):
            self.add_problem(f"group {child!r} cannot be a child of {parent!r}", where)
        else:
            self._attach_child(parent, child)
            self._edges.setdefault((parent, child), where)

    def _attach_child(self, parent: str, child: str) -> None:
        self.groups[parent].children[child] = None
        self.parents[child].add(parent)

    def ancestors(self, name: str) -> set[str]:
        """Return the groups that `name` is in, however far up."""
        return _collect_reachable(self.parents[name], self.parents)

    def list_spark_names(self) -> frozenset[str]:
        """Return the hosts of the group `sparks`, and every group that has one; none without it."""
        if "sparks" not in self.groups:
            return frozenset()
        children = {name: group.children for name, group in self.groups.items()}
        below = _collect_reachable(["sparks"], children)
        hosts = {host for name in below for host in self.groups[name].hosts}
        direct = [name for name, group in self.groups.items() if hosts & group.hosts.keys()]
        return frozenset({*hosts, *_collect_reachable(direct, self.parents), "all"})

    def finish(self) -> None:
        """Attach every loose group to `all` and every loose host to `ungrouped`.

        Raises InventoryError with all problems so far if groups form a loop or are nested too
        deep: their variables cannot be resolved then.
        """
        for name in self.groups:
            if name != "all" and not self.parents[name]:
                self._attach_child("all", name)
        self.depths = self._measure_depths()
        if len(self.depths) < len(self.groups):
            self._refuse_loop()
        elif max(self.depths.values()) > MAX_DEPTH:
            message = f"groups are nested more than {MAX_DEPTH} deep"
            raise InventoryError.of([*self.problems, Problem(message=message)])
        self._attach_loose_hosts()

    def _measure_depths(self) -> dict[str, int]:
        """Return the longest path from `all` to each group, except those in or below a loop."""
        depths: dict[str, int] = {"all": 0}
        left = {name: len(parents) for name, parents in self.parents.items()}
        waiting = ["all"]
        lowest = dict.fromkeys(self.groups, 0)
        while waiting:
            name = waiting.pop()
            for child in self.groups[name].children:
                lowest[child] = max(lowest[child], depths[name] + 1)
                left[child] -= 1
                if not left[child]:
                    depths[child] = lowest[child]
                    waiting.append(child)
        return depths

    def _refuse_loop(self) -> NoReturn:
        name = next(name for name in self.groups if name not in self.depths)
        path: dict[str, None] = {}
        while name not in path:  # upwards among those that no way from `all` reaches
            path[name] = None
            name = min(self.parents[name] - self.depths.keys())
        walked = list(path)
        loop = [name, *reversed(walked[walked.index(name) :])]
        shown = " > ".join(loop if len(loop) < 9 else [*loop[:4], "...", *loop[-4:]])
        self.add_problem(f"groups contain each other: {shown}", self._edges[loop[0], loop[1]])
        raise InventoryError.of(self.problems)

    def _attach_loose_hosts(self) -> None:
        ungrouped = self.groups["ungrouped"]
        grouped = set(self._grouped())
        for host in self.hosts:
            if host in grouped:
                ungrouped.hosts.pop(host, None)
            else:
                ungrouped.hosts[host] = None

    def _grouped(self) -> Iterator[str]:
        """Yield the hosts that are in a group other than `all` and `ungrouped`."""
        for name, group in self.groups.items():
            if name not in ("all", "ungrouped") or self.parents[name] - {"all"}:
                yield from group.hosts


def _collect_reachable(start: Iterable[str], edges: Mapping[str, Iterable[str]]) -> set[str]:
    """Return `start` and all that `edges` lead to from there."""
    reached = set(start)
    waiting = list(reached)
    while waiting:
        fresh = set(edges[waiting.pop()]) - reached
        reached |= fresh
        waiting += fresh
    return reached


def overlay_variables(below: Variables, above: Variables) -> None:
    """Lay variables `above` over those `below`, in place; a mapping replaces a mapping whole."""
    for name, value in above.items():
        old = below.get(name)
        if old is None:
            below[name] = value
        else:
            shadowed = (*value.shadowed, Value(data=old.data, where=old.where), *old.shadowed)
            below[name] = replace(value, shadowed=shadowed)
