"""Base classes of the playbook's actions: inspect, plan, apply; undo if a later task fails.

The engine runs an action in four steps, each with a barrier over all hosts::

    inspect   read-only, on every host at once        -> what was seen on each host
    plan      pure, over all hosts together           -> a Plan for each host, and new state
    apply     on every host whose plan has changes    -> the Plan, with results
    undo      newest first, if a later task fails; `salvage` (save the logs) runs before any undo

``--check`` stops after `plan`, so it opens no channel that can write.

An `Action` works on the cluster as a whole, with one set of arguments. A `HostAction` works on
each host of the play separately, with arguments rendered for that host.

Actions hand results to later actions through `RunState`. Each declares which fields it requires,
uses where they are set, provides, updates and outdates; its steps return new values, and only the
engine stores them. What an action needs to happen on the hosts first, such as a start before a
wait, it declares as `after`, and an order of its own steps as `order`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar

from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import NOTHING, RunState
from sparkfleet.errors import Where
from sparkfleet.model import EMPTY, Change, Host, Outcome, Status, Verdict
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import Answers
from sparkfleet.report.events import Note

A = TypeVar("A")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The changes of an action on one host; without any, the host is already as required."""

    changes: tuple[Change, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    message: str = ""
    hint: str | None = None
    skip: bool = False
    failed: bool = False
    data: Mapping[str, Any] = field(default_factory=lambda: EMPTY)  # the result for `register`
    variables: Mapping[str, Any] = field(
        default_factory=lambda: EMPTY
    )  # for the host's later tasks
    work: Any = None  # input of `apply` that is not printed

    @property
    def needs_apply(self) -> bool:
        """Whether there is anything to apply."""
        return not self.failed and (bool(self.changes) or self.work is not None)

    def outcome(self, host: str) -> Outcome:
        """Return the outcome of a plan that was applied or had nothing to do."""
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
class Planned:
    """Plans by host, with the state that planning provides and lines for the user."""

    plans: Mapping[str, Plan]
    provided: RunState = NOTHING
    notes: tuple[Note, ...] = ()
    summary: tuple[str, ...] = ()  # for the end of the run


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed(Generic[T]):
    """The answers of the hosts to `apply_all` or `roll_back`, with the state that it provides."""

    answers: Answers[T]
    provided: RunState = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class NoArgs:
    """The arguments of an action that takes none."""


def arg(text: str, **settings: Any) -> Any:
    """Return the dataclass field of an argument; `text` is its documentation."""
    return field(metadata={"help": text}, **settings)


class Action(Generic[A]):
    """An action of the playbook. Subclasses override the steps that they have."""

    name: ClassVar[str]
    args_type: ClassVar[type[Any]] = NoArgs
    # the argument that a string or list without a name sets
    bare: ClassVar[Mapping[type, str]] = MappingProxyType({})
    rest: ClassVar[str] = ""  # the argument that takes all names written in the task
    once: ClassVar[bool] = False  # runs once for all hosts of the play
    needs_recipe: ClassVar[bool] = False  # a run with it reads a recipe
    inspects: ClassVar[bool] = False  # has `inspect`, which needs a connection to each host
    undoes: ClassVar[bool] = False  # has `undo` or `roll_back`, so that a rollback reports it
    # `apply` changes nothing: it is done again where a connection breaks
    repeatable: ClassVar[bool] = False
    # fields of RunState
    requires: ClassVar[tuple[str, ...]] = ()  # must be set before the action runs
    requires_in_group: ClassVar[tuple[str, ...]] = ()  # further ones for more than one node
    uses: ClassVar[tuple[str, ...]] = ()  # are read where an earlier task has set them
    provides: ClassVar[tuple[str, ...]] = ()  # are set once it has run
    updates: ClassVar[tuple[str, ...]] = ()  # may be changed by it
    # no longer hold once it has run: a task that requires or uses one of them needs a newer one
    outdates: ClassVar[tuple[str, ...]] = ()
    # actions that must not follow it in a play that has them
    after: ClassVar[tuple[str, ...]] = ()
    # an argument, and those of its values that need the tasks of this action in their order
    order: ClassVar[tuple[str, tuple[str, ...]]] = ("", ())

    where: Where | None = None  # the task's place in its file

    def __init__(self, args: A) -> None:
        self.args = args

    @classmethod
    def validate_args(cls, args: Any) -> Iterator[str]:  # noqa: ARG003 - most have none
        """Yield what is wrong with `args` beyond their types."""
        yield from ()

    @classmethod
    def list_requirements(cls, *, nodes: int) -> tuple[str, ...]:
        """Return the fields of RunState that must be set in a run with that many nodes."""
        return cls.requires + (cls.requires_in_group if nodes > 1 else ())

    def hosts(self, run: RunContext) -> Sequence[Host]:
        """Return the hosts of this action; all hosts of the cluster by default."""
        return run.cluster.hosts

    def inspect_all(self, run: RunContext, hosts: tuple[Host, ...]) -> Answers[Any]:
        """Inspect every host, all at once; must not write. Without `inspects` none is contacted."""
        if not self.inspects:
            return Answers(values={host.name: None for host in hosts}, errors={})
        return run.pool.map(
            lambda connection: self.inspect(run, connection), hosts, repeatable=True
        )

    def inspect(self, run: RunContext, connection: Connection) -> Any:
        """Read what `plan` needs from one host; must not write."""

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan] | Planned:
        """Return a plan for each host, from what was seen on all of them; pure, at `run.now`."""
        return {name: Plan() for name in inspected}

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Apply `plan` on one host and return it with the results."""
        return plan

    def apply_all(
        self, run: RunContext, hosts: tuple[Host, ...], plans: Mapping[str, Plan]
    ) -> Answers[Plan] | Executed[Plan]:
        """Apply the plans of `hosts`, all at once by default."""
        return run.pool.map(
            lambda connection: self.apply(run, connection, plans[connection.host.name]),
            hosts,
            repeatable=self.repeatable,
        )

    def settle(self, run: RunContext, plans: Mapping[str, Plan]) -> RunState:
        """Return new state for later tasks, once every host is done; also with ``--check``."""
        return NOTHING

    def salvage(self, run: RunContext, connection: Connection) -> None:
        """Save what `undo` would destroy; called only after `apply` has started on that host."""

    def roll_back(
        self, run: RunContext, hosts: tuple[Host, ...], plans: Mapping[str, Plan]
    ) -> Answers[None] | Executed[None]:
        """Roll back what was applied on `hosts`; `undo` on all of them at once by default."""
        return run.pool.map(
            lambda connection: self.undo(run, connection, plans[connection.host.name]), hosts
        )

    def undo(self, run: RunContext, connection: Connection, plan: Plan) -> None:
        """Undo what `apply` did with `plan`, even if it was interrupted."""


class HostAction(Action[Mapping[str, A]]):
    """An action that runs on each host of the play separately; `args` are by host name."""

    def hosts(self, run: RunContext) -> Sequence[Host]:
        """Return the hosts of the play."""
        return run.hosts

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Plan each host separately."""
        return {name: self.decide(run, name, state) for name, state in inspected.items()}

    @abstractmethod
    def decide(self, run: RunContext, host: str, inspected: Any) -> Plan:
        """Return the plan of one host from what was seen on it."""
