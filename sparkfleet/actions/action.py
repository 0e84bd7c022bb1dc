"""What every word of the playbook is: look, plan, apply; and undo if a later one fails.

The engine takes an action through four steps, each with a barrier over all hosts::

    inspect   read-only, on every host at once            -> what was seen
    plan      pure, over all hosts together               -> a Plan for each host
    apply     on every host whose plan holds changes      -> the Plan, with what was learnt
    undo      newest first, if a later task fails; `salvage` (save the logs) comes before any undo

``--check`` stops after `plan`, so it opens no channel that can write.

An `Action` works on the cluster as a whole, with one set of arguments. A `HostAction` does its
work on each host of the play by itself, with arguments rendered for that host.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar

from sparkfleet.actions.run_context import RunContext
from sparkfleet.errors import Where
from sparkfleet.model import EMPTY, Change, Host, Outcome, Status, Verdict
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import Answers

A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an action would do on one host; no changes means that all is as it should be."""

    changes: tuple[Change, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    message: str = ""
    hint: str | None = None
    skip: bool = False
    failed: bool = False
    data: Mapping[str, Any] = field(default_factory=lambda: EMPTY)  # what `register` keeps
    variables: Mapping[str, Any] = field(default_factory=lambda: EMPTY)  # for the host's next tasks
    work: Any = None  # what `apply` needs and nobody prints

    @property
    def needs_apply(self) -> bool:
        """Whether there is anything to carry out."""
        return not self.failed and (bool(self.changes) or self.work is not None)

    def outcome(self, host: str) -> Outcome:
        """Return the outcome of a plan that was carried out, or that had nothing to do."""
        if self.failed or any(verdict.refuses for verdict in self.verdicts):
            status = Status.FAILED
        elif self.skip:
            status = Status.SKIPPED
        else:
            status = Status.CHANGED if self.changes else Status.OK
        return Outcome(
            host=host,
            status=status,
            message=self.message,
            hint=self.hint,
            changes=self.changes,
            verdicts=self.verdicts,
            data=self.data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NoArgs:
    """An action that takes no arguments."""


def arg(text: str, **settings: Any) -> Any:
    """Return the field of an argument; `text` is its documentation."""
    return field(metadata={"help": text}, **settings)


class Action(Generic[A]):
    """A word of the playbook. Subclasses override the steps that they have."""

    name: ClassVar[str]
    args_type: ClassVar[type[Any]] = NoArgs
    # the argument that a bare text or list stands for
    bare: ClassVar[Mapping[type, str]] = MappingProxyType({})
    rest: ClassVar[str] = ""  # the argument that takes every name that is written
    once: ClassVar[bool] = False  # done once for all hosts of the play

    where: Where | None = None  # the task's place in its file

    def __init__(self, args: A) -> None:
        self.args = args

    @classmethod
    def validate_args(cls, args: Any) -> Iterator[str]:  # noqa: ARG003 - most have none
        """Yield what is wrong with `args` beyond the type of each."""
        yield from ()

    def hosts(self, run: RunContext) -> Sequence[Host]:
        """Return the hosts that this action concerns; all of the cluster by default."""
        return run.cluster.hosts

    def inspect_all(self, run: RunContext, hosts: tuple[Host, ...]) -> Answers[Any]:
        """Return what was seen on every host; `inspect` on all of them at once by default."""
        if type(self).inspect is Action.inspect:
            return Answers(values={host.name: None for host in hosts}, errors={})
        return run.pool.map(lambda connection: self.inspect(run, connection), hosts)

    def inspect(self, run: RunContext, connection: Connection) -> Any:
        """Read what `plan` needs from one host; must not write."""

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Return a plan for each host, from what was seen on all of them."""
        return {name: Plan() for name in inspected}

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Carry out `plan` on one host and return it, with what was learnt on the way."""
        return plan

    def apply_all(
        self, run: RunContext, hosts: tuple[Host, ...], plans: Mapping[str, Plan]
    ) -> Answers[Plan]:
        """Carry out the plans of `hosts`; `apply` on all of them at once by default."""
        return run.pool.map(
            lambda connection: self.apply(run, connection, plans[connection.host.name]), hosts
        )

    def settle(self, run: RunContext, plans: Mapping[str, Plan]) -> None:
        """Remember what later tasks need, after every host was done."""

    def salvage(self, run: RunContext, connection: Connection) -> None:
        """Save what `undo` would destroy; called only after `apply` was begun on that host."""

    def roll_back(
        self, run: RunContext, hosts: tuple[Host, ...], plans: Mapping[str, Plan]
    ) -> Answers[None]:
        """Take back what was carried out on `hosts`; `undo` on all of them at once by default."""
        return run.pool.map(
            lambda connection: self.undo(run, connection, plans[connection.host.name]), hosts
        )

    def undo(self, run: RunContext, connection: Connection, plan: Plan) -> None:
        """Take back what `apply` did with `plan`, also where it was cut off in the middle."""


class HostAction(Action[Mapping[str, A]]):
    """A word that each host of the play does by itself; `args` are by host name."""

    def hosts(self, run: RunContext) -> Sequence[Host]:
        """Return the hosts of the play."""
        return run.hosts

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Decide for each host alone."""
        return {name: self.decide(run, name, state) for name, state in inspected.items()}

    @abstractmethod
    def decide(self, run: RunContext, host: str, inspected: Any) -> Plan:
        """Return the plan of one host, from what was seen on it."""
