"""The session of `serve.*`: the running deployment, and the connections to its hosts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sparkfleet.cli.context import NO_RECIPE, CommandContext, open_pool, resolve_context
from sparkfleet.cli.options import Options
from sparkfleet.cli.views.health import format_health, open_wait_display
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.command_name import name_command
from sparkfleet.errors import LaunchError, RecipeError, UnreachableError
from sparkfleet.launch.endpoint.health import HealthState, judge_health, look_at_cluster
from sparkfleet.launch.endpoint.served_model import ServedModel, find_served_model
from sparkfleet.launch.host.processes import locate_deployment
from sparkfleet.launch.host.survey import survey_host
from sparkfleet.launch.host.vitals import Vitals, query_vitals
from sparkfleet.model import Host
from sparkfleet.recipes.recipe import Recipe, load_recipe
from sparkfleet.recipes.settings import Settings, overlay_recipe
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import ConnectionPool
from sparkfleet.resources import format_path


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSession:
    """The served model, its recipe (without a name where it is not found), and its hosts."""

    context: CommandContext
    pool: ConnectionPool
    served: ServedModel
    recipe: Recipe

    @property
    def connection(self) -> Connection:
        """The connection to the head."""
        return self.pool.connect(self.served.head)

    def query_vitals(self, connection: Connection, *, samples: int) -> Vitals:
        """Return the vitals of a host; of the head also `samples` of vLLM's metrics."""
        place = locate_deployment(Settings(host=connection.host), self.context.cluster.name)
        url = self.served.endpoint.url if connection.host.name == self.served.head.name else None
        return query_vitals(connection, place, url=url, samples=samples)

    def explain_failure(self, problem: str) -> LaunchError:
        """Return the error for a request without an answer, with the verdict on health by now."""
        head = self.served.head.name
        health = judge_health(look_at_cluster(self.pool, self.context.cluster))
        if health.works:
            hint = "logs: {task:cluster.logs}; requests that run or wait: {task:serve.watch}"
            return LaunchError(problem, host=head, hint=hint)
        return LaunchError(f"{problem}; {health}", host=health.host or head, hint=health.fix)

    @property
    def hosts(self) -> tuple[Host, ...]:
        """The hosts that it spans, in rank order."""
        names = self.served.about.hosts
        return tuple(host for host in self.context.cluster.hosts if host.name in names)

    @property
    def settings(self) -> Settings:
        """The settings of the head, under the recipe of what is served."""
        host = self.context.inventory.hosts[self.served.head.name]
        return Settings(host=overlay_recipe(host, self.recipe, as_written=True))


@contextmanager
def open_serve_session(options: Options, *, must_work: bool = True) -> Iterator[ServeSession]:
    """Find what the cluster serves, print it, and hold the connections to its hosts.

    Raises InputError for what is wrong here, LaunchError where nothing or another recipe is served,
    and if it `must_work` also where its health says that no request would be answered.
    """
    context = resolve_context(options, needs_recipe=False)
    hosts = context.cluster.hosts
    with open_pool(options) as pool:
        surveys = pool.map(
            lambda connection: survey_host(
                connection, Settings(host=connection.host), context.cluster.name
            ),
            hosts,
            repeatable=True,
        ).all()
        if must_work and any(survey.hash for survey in surveys.values()):
            _check_health(options, context, pool)
        deployment = find_served_model({host.name: host for host in hosts}, surveys)
        recipe = _load_served_recipe(options, context, deployment)
        if not options.json:
            print_lines(*_format_header_lines(options, context, deployment))
        yield ServeSession(context=context, pool=pool, served=deployment, recipe=recipe)


def _check_health(options: Options, context: CommandContext, pool: ConnectionPool) -> None:
    """Raise LaunchError, or UnreachableError, unless the cluster answers requests."""
    with open_wait_display(quiet=options.json) as show:
        health = judge_health(look_at_cluster(pool, context.cluster, show=show))
    if not health.works:
        kind = UnreachableError if health.state is HealthState.UNKNOWN else LaunchError
        first, *rest = format_health(health)
        host = health.host or context.cluster.head.name
        raise kind(first, host=host, hint="\n".join(line.strip() for line in rest))


def _load_served_recipe(
    options: Options, context: CommandContext, deployment: ServedModel
) -> Recipe:
    """Return the recipe of what is served; one that was named must be that."""
    name = deployment.about.recipe
    if context.recipe.name == name:
        return context.recipe
    if options.recipe:
        raise LaunchError(
            f"{deployment.head.name} serves recipe {name}, not {context.recipe.name}",
            host=deployment.head.name,
            hint=f"leave --recipe out, or type: {name_command('cluster.switch')} {options.recipe}",
        )
    try:
        return load_recipe(name)
    except RecipeError:
        return NO_RECIPE


def _format_header_lines(
    options: Options, context: CommandContext, deployment: ServedModel
) -> Iterator[str]:
    files = " ".join(format_path(file) for file in context.files)
    about = deployment.about
    yield f"{options.task}  inventory {files}"
    on = ", ".join(about.hosts)
    yield f"{deployment.url}  model {about.served_name}  recipe {about.recipe}  on {on}"
