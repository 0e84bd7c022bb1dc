"""`cluster.status`: what every host says of itself now, and what does not answer."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.text import Text

from sparkfleet.actions import lock
from sparkfleet.cli import unknown
from sparkfleet.cli.asked import Asked, command_line
from sparkfleet.cli.inspection import exit_code
from sparkfleet.cli.resolution import Resolved, resolve, tell
from sparkfleet.cli.screen import say
from sparkfleet.cli.tables import cell, console, table
from sparkfleet.errors import SparkfleetError, UnreachableError
from sparkfleet.inventory.clusters import definitions
from sparkfleet.launch import guards, processes
from sparkfleet.launch.join import wait_for_nodes
from sparkfleet.launch.survey import Survey, ask_survey
from sparkfleet.launch.vitals import Vitals, ask_vitals
from sparkfleet.model import Host
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.link import Link
from sparkfleet.remote.open import open_link
from sparkfleet.remote.pool import Answers, Pool
from sparkfleet.report import json, lasting

EVERY = 2.0  # s between looks, with --watch
GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one host said; `nodes` are Ray's, address -> GPUs, None where it does not say."""

    survey: Survey
    vitals: Vitals
    nodes: Mapping[str, float] | None = None

    @property
    def state(self) -> str:
        """What to call the state of the host, in a word."""
        survey = self.survey
        if survey.interrupted:
            return "starting" if self.vitals.busy else "interrupted"
        if survey.hash is None:
            return "orphans" if survey.running else "stopped"
        return "broken" if survey.dead else "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The cluster at one moment: what each host said, and why others did not."""

    looks: Mapping[str, Look]
    errors: Mapping[str, SparkfleetError]
    notes: tuple[str, ...]


def show_status(asked: Asked, *, watch: bool = False) -> int:
    """Print the state of every host, again and again with `watch`.

    Returns the exit code: 0, or 4 if a host did not answer.
    """
    resolved = resolve(asked, needs_recipe=False)
    tell(asked, resolved)
    with Pool(open_link, forks=asked.forks) as pool:
        scan = _scan(resolved, pool)
        _show(resolved, scan, asked, watch=watch)
        with contextlib.suppress(KeyboardInterrupt):  # its end, with 0
            while watch and lasting.heard():
                time.sleep(EVERY)
                scan = _scan(resolved, pool)
                _show(resolved, scan, asked, watch=watch)
    return exit_code(scan.errors)


def _scan(resolved: Resolved, pool: Pool) -> Scan:
    answers = pool.map(lambda link: _look(resolved, link), resolved.cluster.hosts)
    lost = [name for name, one in answers.errors.items() if isinstance(one, UnreachableError)]
    unknown.learn(resolved.cluster, lost=lost, answered=answers.values, command=command_line())
    notes = (*_notes(resolved, answers), *unknown.told(resolved.cluster).values())
    return Scan(looks=answers.values, errors=answers.errors, notes=notes)


def _look(resolved: Resolved, link: Link) -> Look:
    settings, cluster = Settings(host=link.host), resolved.cluster.name
    survey = ask_survey(link, settings, cluster)
    about = survey.about
    leads = survey.hash is not None and about.hosts[:1] == (link.host.name,)
    vitals = ask_vitals(
        link,
        processes.place(settings, cluster),
        port=about.port if leads else None,
        pids=tuple(survey.pids.values()),
    )
    nodes = None
    if leads and about.ray_nodes and "ray" not in survey.dead:
        with contextlib.suppress(SparkfleetError):
            nodes = wait_for_nodes(link, about, timeout=0)
    return Look(survey=survey, vitals=vitals, nodes=nodes)


def _notes(resolved: Resolved, answers: Answers[Look]) -> Iterator[str]:
    known = definitions(resolved.inventory)
    for name, look in answers.values.items():
        survey = look.survey
        if survey.interrupted and survey.state is not None:
            who = lock.told(survey.state.holder)
            if look.vitals.busy:
                yield f"{name}: a run is at work, last step {survey.state.step}: {who}"
            else:
                yield f"{name}: a run was interrupted after {survey.state.step}: {who}"
                yield "  cluster.up takes it back and starts; cluster.down ends all of it"
        if survey.guard and survey.guard.reason:
            yield f"{name}: {survey.guard.reason}"
            yield f"  {guards.FIX}"
        if look.state == "orphans":
            yield f"{name}: {survey.running} with our label and no record: cluster.down ends them"
        for other in sorted(set(look.vitals.labels) - known.keys()):
            yield f"{name}: something of cluster {other!r} runs, which the inventory does not have"
            yield "  cluster.down --orphans ends it"


def _show(resolved: Resolved, scan: Scan, asked: Asked, *, watch: bool) -> None:
    if asked.output == "json":
        json.write(_document(resolved, scan), sys.stdout, in_line=watch)
        return
    found = table("host", "state", "roles", "memory", "GPU", "deployment")
    for host in resolved.cluster.hosts:
        if host.name in scan.errors:
            reason = scan.errors[host.name].message
            found.add_row(host.name, cell("unknown", "red"), reason, "", "", "")
        else:
            found.add_row(host.name, *_row(scan.looks[host.name]))
    console().print(found)
    say(*_endpoint(resolved, scan), *scan.notes)


COLOURS = {"running": "green", "starting": "yellow", "stopped": "", "orphans": "yellow"}


def _row(look: Look) -> tuple[str | Text, ...]:
    survey, vitals = look.survey, look.vitals
    colour = COLOURS.get(look.state, "red")
    state = cell(look.state, colour)
    roles = ", ".join(_role(look, name) for name in survey.roles)
    memory = vitals.memory
    room = f"{memory.available / GIB:.1f} of {memory.total / GIB:.1f} GiB free" if memory else "?"
    recipe = f"{survey.about.recipe} " if survey.about.recipe else ""
    return state, roles or survey.running, room, _gpu(vitals), f"{recipe}{survey.hash or ''}"


def _role(look: Look, name: str) -> str:
    if name in look.survey.dead:
        return f"{name} (died)"
    pid = look.survey.pids[name]
    return f"{name} (pid {pid}, {_ago(look.vitals.ages.get(pid, 0.0))})"


def _ago(seconds: float) -> str:
    minutes, hours = int(seconds) // 60, int(seconds) // 3600
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min" if minutes else "new"


def _gpu(vitals: Vitals) -> str:
    """Return the processes on the GPU; a GB10 does not tell the memory of all (N/A)."""
    return ", ".join(
        one.name.rsplit("/", 1)[-1]
        + (f" {one.memory / GIB:.1f} GiB" if one.memory is not None else "")
        for one in vitals.gpu
    )


def _endpoint(resolved: Resolved, scan: Scan) -> Iterator[str]:
    for host in resolved.cluster.hosts:
        look = scan.looks.get(host.name)
        if look is None or look.vitals.health is None:
            continue
        about, load = look.survey.about, look.vitals.load
        health = "healthy" if look.vitals.health else "does not answer"
        where = f"endpoint http://{host.address}:{about.port}/v1  model {about.served_name}: "
        yield where + (f"{health}, {load}" if load else health)
        if about.ray_nodes:
            yield f"Ray: {_ray(look)}"


def _ray(look: Look) -> str:
    if look.nodes is None:
        return "does not answer"
    names = look.survey.about.ray_nodes.items()
    return ", ".join(
        f"{name} {look.nodes[address]:.0f} GPU" if address in look.nodes else f"{name} is not there"
        for name, address in names
    )


def _document(resolved: Resolved, scan: Scan) -> dict[str, Any]:
    hosts = {host.name: _entry(host, scan) for host in resolved.cluster.hosts}
    return json.document(
        cluster=resolved.cluster.name,
        hosts=hosts,
        notes=list(scan.notes),
        exit_code=exit_code(scan.errors),
    )


def _entry(host: Host, scan: Scan) -> dict[str, Any]:
    if host.name in scan.errors:
        return {"state": "unknown", "error": scan.errors[host.name].message}
    look = scan.looks[host.name]
    survey, vitals = look.survey, look.vitals
    return {
        "state": look.state,
        "deployment": survey.hash,
        "recipe": survey.about.recipe,
        "roles": {
            name: {
                "pid": pid,
                "alive": name not in survey.dead,
                "seconds": vitals.ages.get(pid),
            }
            for name, pid in survey.pids.items()
        },
        "containers": [dict(one) for one in survey.containers],
        "memory": asdict(vitals.memory) if vitals.memory else None,
        "gpu_processes": [asdict(one) for one in vitals.gpu],
        "healthy": vitals.health,
        "load": asdict(vitals.load) if vitals.load else None,
        "ray_nodes": look.nodes,
        "interrupted": survey.state.run if survey.interrupted and survey.state else None,
    }
