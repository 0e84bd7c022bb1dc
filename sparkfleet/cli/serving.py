"""What `serve.*` work on: the deployment that the hosts say they serve, and the way to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sparkfleet.cli.asked import Asked
from sparkfleet.cli.resolution import NO_RECIPE, Resolved, resolve
from sparkfleet.cli.screen import say
from sparkfleet.errors import LaunchError, RecipeError
from sparkfleet.launch.served import Served, served
from sparkfleet.launch.survey import ask_survey
from sparkfleet.model import Host
from sparkfleet.recipes.recipe import Recipe
from sparkfleet.recipes.recipe import load as load_recipe
from sparkfleet.recipes.settings import Settings, overlay
from sparkfleet.remote.link import Link
from sparkfleet.remote.open import open_link
from sparkfleet.remote.pool import Pool
from sparkfleet.resources import shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What is served, its recipe (without a name where that is not found), and its hosts."""

    resolved: Resolved
    pool: Pool
    served: Served
    recipe: Recipe

    @property
    def link(self) -> Link:
        """The way to the head."""
        return self.pool.link(self.served.head)

    @property
    def hosts(self) -> tuple[Host, ...]:
        """The hosts that it spans, in rank order."""
        names = self.served.about.hosts
        return tuple(host for host in self.resolved.cluster.hosts if host.name in names)

    @property
    def settings(self) -> Settings:
        """The settings of the head, under the recipe of what is served."""
        own = self.resolved.inventory.hosts[self.served.head.name]
        return Settings(host=overlay(own, self.recipe, as_written=True))


@contextmanager
def site(asked: Asked) -> Iterator[Site]:
    """Find what the cluster serves, and hold the way to it open; tell both in a first line.

    Raises InputError for what is wrong here, LaunchError where nothing or another recipe is served.
    """
    resolved = resolve(asked, needs_recipe=False)
    hosts = resolved.cluster.hosts
    with Pool(open_link, forks=asked.forks) as pool:
        surveys = pool.map(
            lambda link: ask_survey(link, Settings(host=link.host), resolved.cluster.name), hosts
        ).all()
        found = served({host.name: host for host in hosts}, surveys)
        recipe = _recipe(asked, resolved, found)
        if asked.output == "text":
            say(*_first_lines(asked, resolved, found))
        yield Site(resolved=resolved, pool=pool, served=found, recipe=recipe)


def _recipe(asked: Asked, resolved: Resolved, found: Served) -> Recipe:
    """Return the recipe of what is served; one that was named must be that."""
    name = found.about.recipe
    if resolved.recipe.name == name:
        return resolved.recipe
    if asked.recipe:
        raise LaunchError(
            f"{found.head.name} serves recipe {name}, not {resolved.recipe.name}",
            host=found.head.name,
            hint=f"leave --recipe out, or type: cluster.switch {asked.recipe}",
        )
    try:
        return load_recipe(name)
    except RecipeError:
        return NO_RECIPE


def _first_lines(asked: Asked, resolved: Resolved, found: Served) -> Iterator[str]:
    files = " ".join(shown(file) for file in resolved.files)
    about = found.about
    yield f"{asked.task}  inventory {files}"
    where = f"http://{found.head.address}:{about.port}/v1"
    yield f"{where}  model {about.served_name}  recipe {about.recipe}  on {', '.join(about.hosts)}"
