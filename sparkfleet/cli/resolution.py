"""Everything that is known before the first host is touched."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from sparkfleet.cli import sources
from sparkfleet.cli.asked import Asked
from sparkfleet.cli.screen import screen
from sparkfleet.errors import InputError, InventoryError, Problem, UsageError
from sparkfleet.inventory.clusters import cluster as choose_cluster
from sparkfleet.inventory.clusters import definitions
from sparkfleet.inventory.loading import load as load_inventory
from sparkfleet.inventory.passwords import sudo_password
from sparkfleet.inventory.patterns import select
from sparkfleet.model import Cluster, Host, Inventory
from sparkfleet.recipes.recipe import Recipe
from sparkfleet.recipes.recipe import load as load_recipe
from sparkfleet.recipes.settings import overlay
from sparkfleet.remote.ssh_config import complete
from sparkfleet.remote.ssh_options import ssh_options
from sparkfleet.report.events import RunStarted
from sparkfleet.report.text import TextReporter
from sparkfleet.resources import shown

NO_RECIPE = Recipe(name="", path=Path())  # of what can do without one


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """What was asked for, with the files that say what it means."""

    files: tuple[str, ...]
    inventory: Inventory
    cluster: Cluster
    recipe: Recipe


def resolve(asked: Asked, *, works_on_cluster: bool = True, needs_recipe: bool = True) -> Resolved:
    """Read inventory and recipe and choose the hosts; raises InputError with what is wrong.

    Without `works_on_cluster` no recipe is needed, and no cluster has to be chosen. Without
    `needs_recipe` one counts where it is named, here or in the inventory.
    """
    files = tuple(sources.inventories(asked.inventory))
    inventory = load_inventory(files, extra_vars=asked.given)
    if works_on_cluster:
        chosen = choose_cluster(inventory, name=asked.cluster, limit=asked.limit)
        recipe = _recipe(asked, chosen.head, needed=needs_recipe)
        chosen = _sized(chosen, asked, recipe)
    else:
        chosen = _any_cluster(inventory, asked)
        recipe = load_recipe(asked.recipe) if asked.recipe else NO_RECIPE
    hosts = (overlay(host, recipe, as_written=not needs_recipe) for host in chosen.hosts)
    cluster = replace(chosen, hosts=tuple(hosts))
    check_connections(cluster.hosts)
    return Resolved(files=files, inventory=inventory, cluster=cluster, recipe=recipe)


def _recipe(asked: Asked, head: Host, *, needed: bool) -> Recipe:
    if not (needed or asked.recipe or head.get("vllm_recipe")):
        return NO_RECIPE
    return load_recipe(sources.recipe_name(asked.recipe, head))


def check_connections(hosts: Iterable[Host]) -> None:
    """Raise InventoryError with everything that SSH could not use, here or in its configuration."""
    problems: dict[Problem, None] = {}
    for host in hosts:
        try:
            options = ssh_options(host)
            if host.get("ansible_connection") != "local":
                complete(options)
        except InputError as error:
            problems |= dict.fromkeys(error.problems)
    if problems:
        raise InventoryError.of(list(problems))


def check_passwords(hosts: Iterable[Host]) -> None:
    """Raise InventoryError with every password for sudo that cannot be had, or that others see."""
    problems: dict[Problem, None] = {}
    for host in hosts:
        try:
            sudo_password(host.vars)
        except InventoryError as error:
            problems |= dict.fromkeys(error.problems)
    if problems:
        raise InventoryError.of(list(problems))


def check_tp(tp: int, recipe: Recipe, *, pp: int = 1) -> None:
    """Raise UsageError where the recipe is not for that many Sparks."""
    if recipe.tp_min is not None and tp * pp < recipe.tp_min:
        raise UsageError(
            f"recipe {recipe.name} needs --tp {recipe.tp_min} at least, not {tp}",
            hint=_reason(recipe, "tp_min"),
        )
    if recipe.tp_max is not None and tp > recipe.tp_max:
        raise UsageError(
            f"recipe {recipe.name} is for --tp {recipe.tp_max} at most, not {tp}",
            hint=_reason(recipe, "tp_max"),
        )


def _reason(recipe: Recipe, name: str) -> str:
    """Return why the recipe limits `name`: its own words, else where it comes from."""
    return recipe.why.get(name) or f"its source: {recipe.source}"


def _any_cluster(inventory: Inventory, asked: Asked) -> Cluster:
    """Return the cluster that is named or the only one, else all Sparks together."""
    if asked.cluster is None and len(definitions(inventory)) > 1:
        return Cluster(name="sparks", hosts=select(inventory, "sparks"))
    return choose_cluster(inventory, name=asked.cluster)


def _sized(cluster: Cluster, asked: Asked, recipe: Recipe) -> Cluster:
    if asked.whole:
        return cluster
    check_tp(asked.tp, recipe, pp=asked.pp)
    nodes = asked.nodes
    if nodes > len(cluster.hosts):
        raise UsageError(
            f"tp x pp = {nodes} needs {nodes} Sparks, and cluster {cluster.name} has "
            f"{len(cluster.hosts)}: {', '.join(host.name for host in cluster.hosts)}",
            hint="add hosts to the group `sparks`, or ask for less: --tp, --pp, --solo",
        )
    return replace(cluster, hosts=cluster.hosts[:nodes])


def tell(asked: Asked, resolved: Resolved) -> None:
    """Print the first line of output, but where it is JSON."""
    if asked.output == "text":
        TextReporter(screen(sys.stdout)).handle(first_line(asked, resolved))


def first_line(asked: Asked, resolved: Resolved) -> RunStarted:
    """Return the first line of output: which files were taken."""
    sources = {"inventory": " ".join(shown(file) for file in resolved.files)}
    if resolved.recipe.name:
        sources["recipe"] = f"{resolved.recipe.name} ({shown(resolved.recipe.path)})"
    return RunStarted(task=asked.task, sources=sources, check=asked.check)
