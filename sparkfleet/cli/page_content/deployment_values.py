"""The deployment that is served, and each value of it with its origin."""

from __future__ import annotations

from dataclasses import replace

from sparkfleet.cli.cluster.watching.own_starts import read_own_start
from sparkfleet.cli.context import CommandContext
from sparkfleet.errors import RecipeError, Where
from sparkfleet.launch.endpoint.health.status import ClusterStatus
from sparkfleet.launch.endpoint.listening import build_client_url
from sparkfleet.launch.watching.start_request import CATALOGUE_NAME, StartRequest
from sparkfleet.model import Value
from sparkfleet.page.content import Served
from sparkfleet.recipes.explanation import Setting, list_settings
from sparkfleet.recipes.recipe import Recipe, load_recipe

TYPED = Where(file="--set of the last start")


def find_served(context: CommandContext, status: ClusterStatus) -> Served | None:
    """Return what the record on the head says; None where no host has a record."""
    hosts = {host.name: host for host in context.cluster.hosts}
    for name, host_status in status.statuses.items():
        survey = host_status.survey
        about = survey.about
        if survey.hash is not None and about.hosts[:1] == (name,):
            return Served(
                url=build_client_url(about.listens_on, about.port, hosts[name].address),
                model=about.served_name,
                recipe=about.recipe,
                deployment=survey.hash,
                executor=about.executor if len(about.hosts) > 1 else "",
                tp=about.tp,
                pp=about.pp,
                hosts=about.hosts,
            )
    return None


def list_served_settings(
    context: CommandContext, written: StartRequest | None, served: Served | None
) -> tuple[Setting, ...]:
    """Return each value of the deployment on the head with its origin.

    `written` is the request in the receipt on the head; its ``--set`` counts. Raises
    SparkfleetError where the recipe is not found here.
    """
    if served is None:
        return ()
    head = context.inventory.hosts[context.cluster.head.name]
    own = read_own_start(context.cluster.name)
    request = own if own and written and own.run and own.run == written.run else written
    recipe = _load_recipe(context, served, own if request is own else None)
    given = request.given if request else {}
    laid = {name: Value(data=data, where=TYPED) for name, data in given.items()}
    return list_settings(recipe, replace(head, vars={**head.vars, **laid}))


def _load_recipe(context: CommandContext, served: Served, own: StartRequest | None) -> Recipe:
    """Return the recipe that is served; of a name that only a host says, only the catalogue's."""
    if context.recipe.name == served.recipe:
        return context.recipe
    if own is not None and own.recipe_file:
        return load_recipe(own.recipe_file)
    if not CATALOGUE_NAME.fullmatch(served.recipe):
        raise RecipeError(f"recipe {served.recipe!r} was read on another machine")
    return load_recipe(served.recipe)
