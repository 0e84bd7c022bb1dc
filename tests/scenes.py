"""Playbooks on hosts that are this machine, through the same doors as the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparkfleet.actions.clock import Clock, read_clock
from sparkfleet.actions.run.identity import build_lock_holder
from sparkfleet.actions.run_context import RunContext, RunOptions
from sparkfleet.model import Cluster, Group, Host, Inventory, Outcome, Status, Value
from sparkfleet.playbook.assignment import assign_hosts
from sparkfleet.playbook.engine import PlaybookRunner, RunResult
from sparkfleet.playbook.parse import load_playbook
from sparkfleet.playbook.selection import Selection, select_tasks
from sparkfleet.playbook.syntax import AssignedPlay
from sparkfleet.playbook.task_order import check_selected_order
from sparkfleet.recipes.recipe import Recipe
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.local import LocalConnection
from sparkfleet.remote.pool import ConnectionPool
from sparkfleet.report.events import Event, HostEnded, Note, TaskStarted

EVERY_TASK = Selection()
NAMES = ("spark-01", "spark-02")
OPTIONS = RunOptions()


@dataclass
class Recorder:
    """Collects what a run reports."""

    events: list[Event] = field(default_factory=list)

    def handle(self, event: Event) -> None:
        self.events.append(event)

    def outcomes(self, task: str) -> dict[str, Outcome]:
        """Return the outcomes of the tasks with this name, by host; the last one wins."""
        return {
            event.outcome.host: event.outcome
            for event in self.events
            if isinstance(event, HostEnded) and event.task == task
        }

    def ended(self) -> list[tuple[str, str, Status]]:
        return [
            (event.task, event.outcome.host, event.outcome.status)
            for event in self.events
            if isinstance(event, HostEnded)
        ]

    def titles(self) -> list[str]:
        return [event.name for event in self.events if isinstance(event, TaskStarted)]

    def notes(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Note)]


def inventory(names: tuple[str, ...] = NAMES, **variables: Any) -> Inventory:
    """Return an inventory with `names` in the group `sparks`; `variables` are every host's."""
    own = {name: Value(data=data) for name, data in variables.items()}
    own["ansible_connection"] = Value(data="local")
    groups = {"sparks": Group(name="sparks", hosts=names)}
    return Inventory(
        sources=(),
        hosts={name: Host(name=name, groups=("sparks",), vars=own) for name in names},
        groups={"all": Group(name="all", children=("sparks",)), **groups},
    )


@contextmanager
def scene(
    folder: Path,
    *,
    hosts: Inventory | None = None,
    options: RunOptions = OPTIONS,
    given: Mapping[str, Any] | None = None,
    open_link: Callable[[Host], Connection] = LocalConnection,
    clock: Clock = read_clock,
) -> Iterator[RunContext]:
    known = hosts or inventory()
    with ConnectionPool(open_link) as pool:
        yield RunContext(
            inventory=known,
            cluster=Cluster(name="test", hosts=tuple(known.hosts.values())),
            recipe=Recipe(name="none", path=folder),
            options=options,
            given=given or {},
            pool=pool,
            reporter=Recorder(),
            log_dir=folder,
            run_id="1",
            holder=build_lock_holder(options.command, clock().date),
            clock=clock,
        )


def play(
    folder: Path,
    text: str,
    *,
    selection: Selection = EVERY_TASK,
    limit: str | None = None,
    **settings: Any,
) -> tuple[RunResult, Recorder]:
    """Run the playbook `text`; without a `- hosts:` it is the tasks of one play on `sparks`."""
    if not text.lstrip().startswith(("- hosts:", "- name: play")):
        text = "- hosts: sparks\n  tasks:\n" + "".join(
            f"    {line}\n" for line in text.splitlines()
        )
    path = folder / "play.yml"
    path.write_text(text)
    with scene(folder, **settings) as made:
        playbook = load_playbook(path)
        plays = assign_hosts(
            select_tasks(playbook, selection),
            made.inventory,
            made.cluster,
            limit=limit,
            given=made.given,
        )
        check_selected_order(
            [assigned.play for assigned in plays], playbook, nodes=made.options.nodes
        )
        assert isinstance(made.reporter, Recorder)
        return PlaybookRunner(made).run(plays), made.reporter


def assigned(made: RunContext, plays: Any) -> list[AssignedPlay]:
    """Return `plays` on every host of the scene."""
    return [AssignedPlay(play=one, hosts=made.cluster.hosts) for one in plays]
