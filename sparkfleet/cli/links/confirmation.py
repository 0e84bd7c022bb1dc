"""Confirmation of a change of the links: what it interrupts, a question on a terminal, or --yes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparkfleet.cli import prompt
from sparkfleet.cli.links.options import AddressApplyOptions, ChangeOptions
from sparkfleet.cli.links.run_in_progress import RunInProgress, find_run
from sparkfleet.cli.links.session import RootSession
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.command_name import name_command
from sparkfleet.errors import HostError, LockHeldError
from sparkfleet.launch.host.survey import Survey, survey_host
from sparkfleet.recipes.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingCluster:
    """A cluster that runs `model` on `hosts`, or that `run` changes."""

    name: str
    model: str
    hosts: tuple[str, ...]
    run: RunInProgress | None = None

    def __str__(self) -> str:
        if self.run:
            return str(self.run)
        return f"cluster {self.name} runs {self.model} on {', '.join(self.hosts)}"


def find_serving(session: RootSession) -> ServingCluster | None:
    """Return what runs on the hosts over these links, or changes them; None where nothing does.

    Raises the SparkfleetError of a host that did not answer.
    """
    cluster = session.cluster.name
    surveys = session.pool.map(
        lambda connection: survey_host(connection, Settings(host=connection.host), cluster),
        session.hosts,
        repeatable=True,
    ).all()
    if serving := summarize_surveys(cluster, surveys):
        return serving
    run = find_run(session.pool, cluster, session.hosts)
    return ServingCluster(name=cluster, model="", hosts=(run.host,), run=run) if run else None


def summarize_surveys(cluster: str, surveys: Mapping[str, Survey]) -> ServingCluster | None:
    """Return what runs according to the surveys of all hosts; pure."""
    busy = {name: survey for name, survey in surveys.items() if survey.running_summary}
    if not busy:
        return None
    models = sorted({survey.about.served_name for survey in busy.values()} - {""})
    model = ", ".join(models) or "processes without a deployment record"
    return ServingCluster(name=cluster, model=model, hosts=tuple(busy))


def is_confirmed(
    options: AddressApplyOptions | ChangeOptions, question: str, serving: ServingCluster | None
) -> bool:
    """Return whether the change is to be made; says so where it was only shown.

    Raises HostError where something is served, and LockHeldError where a run is in progress, and
    no one can be asked about it.
    """
    if options.check:
        return False
    asks = not (options.yes or options.json) and prompt.is_interactive()
    unasked = options.yes and not asks and not options.while_serving
    if serving and serving.run and unasked:
        raise LockHeldError(
            f"{serving}; nothing was changed",
            hint="run this again once it has ended, or change the links anyway: --while-serving",
        )
    if serving and unasked:
        raise HostError(
            f"{serving}: it would lose its links; nothing was changed",
            host=serving.hosts[0],
            hint=f"stop it: {name_command('cluster.down')}; or change the links anyway: "
            "--while-serving",
        )
    if serving and not options.json:
        print_lines(f"{serving}: it loses its links for a moment, and may not recover")
    if options.yes or (asks and prompt.confirm(question)):
        return True
    if not options.json:
        print_lines(prompt.ONLY_SHOWN)
    return False
