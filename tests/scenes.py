"""Playbooks on hosts that are this machine, through the same doors as the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparkfleet.actions.scene import Options, Scene
from sparkfleet.model import Cluster, Group, Host, Inventory, Outcome, Status, Value
from sparkfleet.playbook.assignment import assign
from sparkfleet.playbook.engine import Ended, Engine
from sparkfleet.playbook.parse import load
from sparkfleet.playbook.selection import ALL, Selection, select
from sparkfleet.playbook.syntax import Assigned
from sparkfleet.recipes.recipe import Recipe
from sparkfleet.remote.link import Link
from sparkfleet.remote.local import LocalLink
from sparkfleet.remote.pool import Pool
from sparkfleet.report.events import Event, HostEnded, Note, TaskStarted

NAMES = ("spark-01", "spark-02")
OPTIONS = Options()


@dataclass
class Told:
    """What a run told."""

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
    options: Options = OPTIONS,
    given: Mapping[str, Any] | None = None,
    open_link: Callable[[Host], Link] = LocalLink,
) -> Iterator[Scene]:
    known = hosts or inventory()
    with Pool(open_link) as pool:
        yield Scene(
            inventory=known,
            cluster=Cluster(name="test", hosts=tuple(known.hosts.values())),
            recipe=Recipe(name="none", path=folder),
            options=options,
            given=given or {},
            pool=pool,
            reporter=Told(),
            log_dir=folder,
            run_id="1",
        )


def play(
    folder: Path,
    text: str,
    *,
    selection: Selection = ALL,
    limit: str | None = None,
    **settings: Any,
) -> tuple[Ended, Told]:
    """Run the playbook `text`; without a `- hosts:` it is the tasks of one play on `sparks`."""
    if not text.lstrip().startswith(("- hosts:", "- name: play")):
        text = "- hosts: sparks\n  tasks:\n" + "".join(
            f"    {line}\n" for line in text.splitlines()
        )
    path = folder / "play.yml"
    path.write_text(text)
    with scene(folder, **settings) as made:
        plays = assign(
            select(load(path), selection),
            made.inventory,
            made.cluster,
            limit=limit,
            given=made.given,
        )
        assert isinstance(made.reporter, Told)
        return Engine(made).run(plays), made.reporter


def assigned(made: Scene, plays: Any) -> list[Assigned]:
    """Return `plays` on every host of the scene."""
    return [Assigned(play=one, hosts=made.cluster.hosts) for one in plays]
