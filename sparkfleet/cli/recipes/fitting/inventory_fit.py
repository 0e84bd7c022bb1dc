"""Whether recipes fit the Sparks of an inventory, without asking them; from published figures."""

from __future__ import annotations

from collections.abc import Sequence

from sparkfleet.cli import defaults
from sparkfleet.cli.options import Options
from sparkfleet.cli.recipes.fitting.inputs import assume_idle_memory, build_recipe_model
from sparkfleet.cli.recipes.fitting.sized_fit import RecipeFit, SizedFit
from sparkfleet.cli.recipes.fitting.values import FitInputs
from sparkfleet.errors import InventoryError
from sparkfleet.fit.memory import FitAnswer, evaluate_nodes
from sparkfleet.fit.options import parse_serve_options
from sparkfleet.fit.requirements import estimate_requirements
from sparkfleet.inventory.clusters import choose_cluster
from sparkfleet.inventory.loading import load_inventory
from sparkfleet.model import Host
from sparkfleet.recipes.recipe import Recipe
from sparkfleet.recipes.settings import Settings, overlay_recipe


def select_inventory_hosts(options: Options) -> tuple[Host, ...]:
    """Return the hosts of the cluster, the head first; raises InventoryError where it has none."""
    files = defaults.find_inventory_files(options.inventory)
    inventory = load_inventory(files, extra_vars=options.set_variables)
    return choose_cluster(inventory, name=options.cluster).hosts


def list_sizes(recipe: Recipe, count: int) -> list[int]:
    """Return the numbers of Sparks that a recipe can use of `count`: powers of two, and its own."""
    least = recipe.tp_min or 1
    most = min(count, recipe.tp_max or count)
    sizes = {least, *(1 << power for power in range(count.bit_length()))}
    return sorted(size for size in sizes if least <= size <= most)


def judge_fit(recipe: Recipe, hosts: Sequence[Host]) -> SizedFit:
    """Return the answer for the smallest size at which it may fit on `hosts`."""
    sizes = list_sizes(recipe, len(hosts))
    answers = [judge_size(recipe, hosts, size) for size in sizes]
    fitting = [answer for answer in answers if answer.fit is not RecipeFit.NOT]
    if fitting:
        return fitting[0]
    if answers:
        return answers[-1]
    least = recipe.tp_min or 1
    return SizedFit(
        nodes=least, fit=RecipeFit.NOT, why=f"it needs {least} Sparks, but there are {len(hosts)}"
    )


def judge_size(recipe: Recipe, hosts: Sequence[Host], nodes: int) -> SizedFit:
    """Return the answer for `nodes` of the hosts, each an idle Spark."""
    published = next((speed for speed in recipe.speeds if speed.nodes == nodes), None)
    if published is not None:
        return SizedFit(nodes=nodes, fit=RecipeFit.PUBLISHED, why=f"measured: {published.source}")
    try:
        fit, why = _estimate_fit(recipe, hosts[:nodes], nodes)
    except InventoryError as error:
        return SizedFit(nodes=nodes, fit=RecipeFit.UNKNOWN, why=error.message)
    return SizedFit(nodes=nodes, fit=fit, why=why)


def _estimate_fit(recipe: Recipe, hosts: Sequence[Host], nodes: int) -> tuple[RecipeFit, str]:
    """Return the estimate of recipes.fit from the recipe's own figures, for the fullest host."""
    laid = [overlay_recipe(host, recipe, as_written=True) for host in hosts]
    settings = Settings(host=laid[0])
    start = parse_serve_options(
        settings.vllm_options, tp=nodes, pp=1, environment=settings.mapping("vllm_env")
    )
    memory = tuple(assume_idle_memory(host) for host in laid)
    inputs = FitInputs(answer=None, draft=None, host_memory=memory, terms=None, notes=())
    model = build_recipe_model(recipe, inputs, start)
    need = estimate_requirements(model, start)
    worst = min(evaluate_nodes(need, start, memory).values(), key=lambda fit: fit.spare.low)
    known = {FitAnswer.NOT: RecipeFit.NOT, FitAnswer.FITS: RecipeFit.ESTIMATED}
    answer = known.get(worst.answer, RecipeFit.UNKNOWN)
    weights_known = model.weights is not None and need.fixed is not None
    if answer is RecipeFit.UNKNOWN and weights_known and worst.cache and worst.cache.low > 0:
        answer = RecipeFit.WEIGHTS
    return answer, worst.why
