"""Running a playbook for a task: resolve everything offline, then hand it to the engine."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from sparkfleet.actions.scene import Options, Scene
from sparkfleet.cli import sources
from sparkfleet.cli.asked import Asked, command_line
from sparkfleet.doctor.matcher import diagnose
from sparkfleet.errors import PlaybookError, UsageError
from sparkfleet.inventory.clusters import cluster as choose_cluster
from sparkfleet.inventory.loading import load as load_inventory
from sparkfleet.model import Cluster, Host, Inventory
from sparkfleet.playbook.engine import Engine
from sparkfleet.playbook.parse import load as load_playbook
from sparkfleet.playbook.syntax import Play
from sparkfleet.recipes.recipe import Recipe
from sparkfleet.recipes.recipe import load as load_recipe
from sparkfleet.recipes.settings import overlay
from sparkfleet.remote.open import open_link
from sparkfleet.remote.pool import Pool
from sparkfleet.report.events import Note, Reporters, RunEnded, RunStarted
from sparkfleet.report.log import LogReporter, log_folder
from sparkfleet.report.text import TextReporter
from sparkfleet.resources import find, listing, shown, similar


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """Everything that is known before the first host is touched."""

    files: tuple[str, ...]
    inventory: Inventory
    cluster: Cluster
    recipe: Recipe


def resolve(asked: Asked) -> Resolved:
    """Read inventory and recipe and choose the hosts; raises InputError with what is wrong."""
    files = tuple(sources.inventories(asked.inventory))
    inventory = load_inventory(files, extra_vars=asked.given)
    chosen = choose_cluster(inventory, name=asked.cluster, limit=asked.limit)
    recipe = load_recipe(sources.recipe_name(asked.recipe, chosen.head))
    sized = _sized(chosen, asked, recipe)
    cluster = replace(sized, hosts=tuple(overlay(host, recipe) for host in sized.hosts))
    return Resolved(files=files, inventory=inventory, cluster=cluster, recipe=recipe)


def _sized(cluster: Cluster, asked: Asked, recipe: Recipe) -> Cluster:
    if asked.whole:
        return cluster
    if recipe.tp_max is not None and asked.tp > recipe.tp_max:
        raise UsageError(
            f"recipe {recipe.name} is for --tp {recipe.tp_max} at most, not {asked.tp}",
            hint=f"its source: {recipe.source}",
        )
    nodes = asked.nodes
    if nodes > len(cluster.hosts):
        raise UsageError(
            f"tp x pp = {nodes} needs {nodes} Sparks, and cluster {cluster.name} has "
            f"{len(cluster.hosts)}: {', '.join(host.name for host in cluster.hosts)}",
            hint="add hosts to the group `sparks`, or ask for less: --tp, --pp, --solo",
        )
    return replace(cluster, hosts=cluster.hosts[:nodes])


def run_playbook(name: str, asked: Asked) -> int:
    """Run the playbook `name` (shipped, or a path) and return the exit code."""
    plays = load_playbook(_playbook(name))
    resolved = resolve(asked)
    run_id = time.strftime("%Y%m%d-%H%M%S") + f"-{os.getpid()}"
    folder = log_folder(run_id)
    text = TextReporter(Console(highlight=False), diff=asked.diff, verbose=asked.verbose)
    with LogReporter(folder / "run.log") as log, Pool(open_link, forks=asked.forks) as pool:
        scene = Scene(
            inventory=resolved.inventory,
            cluster=resolved.cluster,
            recipe=resolved.recipe,
            options=_options(asked),
            given=asked.given,
            pool=pool,
            reporter=Reporters(text, log),
            log_dir=folder,
            run_id=run_id,
        )
        scene.tell(_first_line(asked, resolved))
        return _run(scene, plays)


def _run(scene: Scene, plays: Sequence[Play]) -> int:
    signal.signal(signal.SIGTERM, _interrupt)
    began = time.monotonic()
    ended = Engine(scene, _variables(scene)).run(plays)
    if ended.exit_code:
        _tell_causes(scene)
    scene.tell(
        RunEnded(
            recap=ended.recap,
            exit_code=ended.exit_code,
            seconds=time.monotonic() - began,
            answer=tuple(scene.answer) if ended.exit_code == 0 else (),
            log=str(scene.log_dir),
        )
    )
    return ended.exit_code


def _tell_causes(scene: Scene) -> None:
    """Name the causes that the saved logs show, the first one first."""
    logs: dict[str, str] = {}
    for path in sorted(scene.log_dir.glob("*-*.log")):
        host = path.stem.rsplit("-", 1)[0]
        logs[host] = logs.get(host, "") + path.read_bytes().decode(errors="replace")
    for finding in diagnose(logs):
        if finding.explains:
            text = f"cause on {finding.host}: {finding.cause} [{finding.id}]\n    {finding.fix}"
            scene.tell(Note(text=f"{text}\n    its log says: {finding.text}", level="error"))


def _options(asked: Asked) -> Options:
    return Options(
        tp=asked.tp,
        pp=asked.pp,
        check=asked.check,
        allow_degraded=asked.allow_degraded,
        lock_wait=asked.lock_wait,
        command=command_line(),
    )


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _playbook(name: str) -> Path:
    path = Path(name) if name.endswith((".yml", ".yaml")) else find("playbooks", f"{name}.yml")
    if path is None or not path.is_file():
        known = list(listing("playbooks", ".yml"))
        raise PlaybookError(f"there is no playbook {name!r}", hint=similar(name, known))
    return path


def _first_line(asked: Asked, resolved: Resolved) -> RunStarted:
    return RunStarted(
        task=asked.task,
        sources={
            "inventory": " ".join(shown(file) for file in resolved.files),
            "recipe": f"{resolved.recipe.name} ({shown(resolved.recipe.path)})",
        },
        check=asked.check,
    )


def _variables(scene: Scene) -> dict[str, dict[str, Any]]:
    return {host.name: _host_variables(scene, host) for host in scene.cluster.hosts}


def _host_variables(scene: Scene, host: Host) -> dict[str, Any]:
    options = scene.options
    magic = {
        "inventory_hostname": host.name,
        "nodes": options.nodes,
        "tp": options.tp,
        "pp": options.pp,
        "rank": scene.cluster.rank(host.name),
    }
    return {name: host.get(name) for name in host.vars} | dict(scene.given) | magic
