"""The values that everything else passes around; all frozen, none does I/O."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from sparkfleet.command_name import expand_commands
from sparkfleet.errors import Where

EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A variable's data, the place that set it and what it shadowed there (nearest first).

    `raw` is the text as written, where `data` was rendered from a template; `entries` are the
    places of a mapping's keys, or of a list's items by their index ("0"), where they are known.
    """

    data: Any
    where: Where | None = None
    shadowed: tuple[Value, ...] = ()
    raw: Any = None
    entries: Mapping[str, Where] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A machine of the inventory; `vars` are resolved: the winning value of every variable."""

    name: str
    groups: tuple[str, ...] = ()
    vars: Mapping[str, Value] = field(default_factory=lambda: EMPTY)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the data of variable `name`, or `default` where no file sets it."""
        value = self.vars.get(name)
        return default if value is None else value.data

    @property
    def address(self) -> str:
        """The name or address that SSH connects to (`ansible_host`, else the host's name)."""
        return str(self.get("ansible_host") or self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group of the inventory with its direct hosts, children and own variables."""

    name: str
    hosts: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    vars: Mapping[str, Value] = field(default_factory=lambda: EMPTY)
    priority: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Hosts and groups by name, in the order in which the files first name them.

    `encrypted` are files of variables, and variables, that were passed over as encrypted.
    """

    sources: tuple[str, ...]
    hosts: Mapping[str, Host]
    groups: Mapping[str, Group]
    encrypted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Hosts that serve one model together, in rank order; the first is the head (rank 0)."""

    name: str
    hosts: tuple[Host, ...]

    @property
    def head(self) -> Host:
        """The host of rank 0: Ray's head, and the one that answers requests."""
        return self.hosts[0]

    @property
    def workers(self) -> tuple[Host, ...]:
        """The hosts of ranks 1 and up."""
        return self.hosts[1:]

    def find_host(self, name: str) -> Host:
        """Return the host `name`."""
        return self.hosts[self.rank(name)]

    def rank(self, name: str) -> int:
        """Return the node rank of host `name`."""
        return next(rank for rank, host in enumerate(self.hosts) if host.name == name)


class Severity(enum.StrEnum):
    """How much a verdict weighs; only ERROR refuses."""

    OK = "ok"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of one check on one host.

    `check` is a dotted id (``link.mtu``), `subject` the thing looked at (an interface, a path),
    `source` the place the fact was read from, `fix` what to type or do next, `reason` why it is
    expected, with the document that says so. A ``{task:cluster.up}`` in `fix` becomes the command
    that the user types.
    """

    check: str
    severity: Severity
    host: str
    subject: str
    expected: str
    seen: str
    source: str = ""
    fix: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "fix", expand_commands(self.fix))

    @property
    def refuses(self) -> bool:
        """Whether this verdict alone stops a start."""
        return self.severity is Severity.ERROR

    def __str__(self) -> str:
        text = f"{self.host}: {self.subject}: expected {self.expected}, saw {self.seen}"
        if self.source:
            text += f" ({self.source})"
        if self.reason:
            text += f"; {self.reason}"
        return f"{text}; {self.fix}" if self.fix else text


class Status(enum.StrEnum):
    """The result of a task on a host; the names are those of Ansible's recap.

    RESCUED is what the recap makes of a failure that a `rescue` has handled.
    """

    OK = "ok"
    CHANGED = "changed"
    SKIPPED = "skipped"
    FAILED = "failed"
    UNREACHABLE = "unreachable"
    RESCUED = "rescued"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that a task would do, or did; `before` and `after` are texts for `--diff`."""

    summary: str
    path: str | None = None
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one task on one host; `data` is what `register` keeps.

    A ``{task:cluster.up}`` in `hint` becomes the command that the user types.
    """

    host: str
    status: Status
    message: str = ""
    hint: str | None = None
    changes: tuple[Change, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    data: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

    def __post_init__(self) -> None:
        if self.hint:
            object.__setattr__(self, "hint", expand_commands(self.hint))
