"""The context of a command: everything that is known before the first connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from sparkfleet.cli import defaults
from sparkfleet.cli.connection_checks import check_ssh_options
from sparkfleet.cli.options import Options
from sparkfleet.cli.views.connecting import create_pool
from sparkfleet.cli.views.screen import create_screen
from sparkfleet.errors import UsageError
from sparkfleet.inventory.clusters import choose_cluster, read_cluster_definitions
from sparkfleet.inventory.loading import load_inventory
from sparkfleet.inventory.patterns import select_hosts
from sparkfleet.model import Cluster, Host, Inventory
from sparkfleet.recipes.recipe import Recipe, load_recipe
from sparkfleet.recipes.settings import overlay_recipe
from sparkfleet.remote.pool import ConnectionPool
from sparkfleet.report.events import RunStarted
from sparkfleet.report.text import TextReporter
from sparkfleet.resources import format_path, is_shipped

NO_RECIPE = Recipe(name="", path=Path())  # for tasks that need none


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """The hosts, inventory and recipe of a command, with the files that they come from."""

    files: tuple[str, ...]
    inventory: Inventory
    cluster: Cluster
    recipe: Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSession:
    """The context of a command, and the connections to its hosts."""

    context: CommandContext
    pool: ConnectionPool


@contextmanager
def open_cluster(
    options: Options, *, works_on_cluster: bool = True, needs_recipe: bool = False
) -> Iterator[ClusterSession]:
    """Resolve the context, print the first line of output, and hold connections to the hosts.

    Raises InputError, as `resolve_context` does.
    """
    context = resolve_context(options, works_on_cluster=works_on_cluster, needs_recipe=needs_recipe)
    print_run_started(options, context)
    with open_pool(options) as pool:
        yield ClusterSession(context=context, pool=pool)


def open_pool(options: Options) -> ConnectionPool:
    """Return a pool of connections, which are opened when they are first used."""
    return create_pool(options)


def resolve_context(
    options: Options, *, works_on_cluster: bool = True, needs_recipe: bool = True
) -> CommandContext:
    """Read inventory and recipe and choose the hosts; raises InputError with what is wrong.

    Without `works_on_cluster` no recipe is needed, and no cluster has to be chosen. Without
    `needs_recipe` one counts where it is named, here or in the inventory.
    """
    files = tuple(defaults.find_inventory_files(options.inventory))
    inventory = load_inventory(files, extra_vars=options.set_variables)
    if works_on_cluster:
        chosen = choose_cluster(inventory, name=options.cluster, limit=options.limit)
        recipe = _load_chosen_recipe(options, chosen.head, needed=needs_recipe)
        sized = needs_recipe and options.offers_size
        chosen = _trim_cluster(chosen, options, recipe, sized=sized)
    else:
        chosen = _choose_any_cluster(inventory, options)
        recipe = load_recipe(options.recipe) if options.recipe else NO_RECIPE
    hosts = (overlay_recipe(host, recipe, as_written=not needs_recipe) for host in chosen.hosts)
    cluster = replace(chosen, hosts=tuple(hosts))
    check_ssh_options(cluster.hosts)
    return CommandContext(files=files, inventory=inventory, cluster=cluster, recipe=recipe)


def _load_chosen_recipe(options: Options, head: Host, *, needed: bool) -> Recipe:
    if not (needed or options.recipe or head.get("vllm_recipe")):
        return NO_RECIPE
    return load_recipe(defaults.choose_recipe_name(options.recipe, head))


def check_tp(tp: int, recipe: Recipe, *, pp: int = 1) -> None:
    """Raise UsageError where the recipe does not support that many Sparks."""
    if recipe.tp_min is not None and tp * pp < recipe.tp_min:
        raise UsageError(
            f"recipe {recipe.name} needs --tp >= {recipe.tp_min} (got {tp})",
            hint=_explain_limit(recipe, "tp_min"),
        )
    if recipe.tp_max is not None and tp > recipe.tp_max:
        raise UsageError(
            f"recipe {recipe.name} needs --tp <= {recipe.tp_max} (got {tp})",
            hint=_explain_limit(recipe, "tp_max"),
        )


def _explain_limit(recipe: Recipe, name: str) -> str:
    """Return why the recipe limits `name`: its own reason, else its source."""
    return recipe.why.get(name) or f"its source: {recipe.source}"


def _choose_any_cluster(inventory: Inventory, options: Options) -> Cluster:
    """Return the cluster that is named or the only one, else all Sparks together."""
    if options.cluster is None and len(read_cluster_definitions(inventory)) > 1:
        return Cluster(name="sparks", hosts=select_hosts(inventory, "sparks"))
    return choose_cluster(inventory, name=options.cluster)


def _trim_cluster(cluster: Cluster, options: Options, recipe: Recipe, *, sized: bool) -> Cluster:
    """Return the hosts that the size needs; `sized`: without a size, those the recipe can use."""
    if options.whole_cluster:
        return _trim_to_recipe(cluster, recipe) if sized else cluster
    check_tp(options.tp, recipe, pp=options.pp)
    nodes = options.nodes
    if nodes > len(cluster.hosts):
        sizes = {"tp": options.tp, "pp": options.pp, "dp": options.dp}
        typed = " ".join(f"--{name} {size}" for name, size in sizes.items() if size > 1)
        raise UsageError(
            f"{typed} needs {nodes} Sparks, but cluster {cluster.name!r} has "
            f"{len(cluster.hosts)}: {', '.join(host.name for host in cluster.hosts)}",
            hint="add hosts to the group `sparks`, or reduce --tp, --pp or --dp, or use --solo",
        )
    return replace(cluster, hosts=cluster.hosts[:nodes])


def _trim_to_recipe(cluster: Cluster, recipe: Recipe) -> Cluster:
    """Return the first hosts of the cluster: the largest power of two that the recipe allows.

    Attention heads of models divide by powers of two; --tp N takes any other size.
    """
    most = min(len(cluster.hosts), recipe.tp_max or len(cluster.hosts))
    size = 1 << (most.bit_length() - 1)
    if recipe.tp_min and size < recipe.tp_min <= most:
        size = recipe.tp_min
    return replace(cluster, hosts=cluster.hosts[:size])


def get_tp(options: Options, context: CommandContext) -> int:
    """Return the tensor-parallel size: the one asked for, else every host that was chosen."""
    return len(context.cluster.hosts) if options.whole_cluster else options.tp


def print_run_started(options: Options, context: CommandContext) -> None:
    """Print the first line of output, unless the output is JSON."""
    if not options.json:
        TextReporter(create_screen()).handle(build_run_started(options, context))


def build_run_started(options: Options, context: CommandContext) -> RunStarted:
    """Return the first line of output: which files were taken."""
    sources = {"inventory": " ".join(format_path(file) for file in context.files)}
    if context.inventory.encrypted:
        sources["encrypted, not read:"] = " ".join(map(format_path, context.inventory.encrypted))
    if context.recipe.name:
        sources["recipe"] = _format_recipe(context.recipe)
    if context.recipe.shelf:
        sources["from"] = context.recipe.shelf
    return RunStarted(task=options.task, sources=sources, check=options.check)


def _format_recipe(recipe: Recipe) -> str:
    if recipe.written:
        place = "shipped" if is_shipped(recipe.path) else format_path(recipe.path)
        return f"{recipe.name} ({place})"
    return f"{recipe.name} (no recipe: vLLM's defaults)"
