"""Agreement to a change of the links: what it interrupts, a question on a terminal, or --yes."""

from __future__ import annotations

from collections.abc import Mapping

from sparkfleet.cli import prompt
from sparkfleet.cli.links.addressing import RootSession
from sparkfleet.cli.links.options import AddressApplyOptions, ChangeOptions
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.door import command_name
from sparkfleet.errors import HostError
from sparkfleet.launch.host.survey import Survey, survey_host
from sparkfleet.recipes.settings import Settings

ONLY_SHOWN = "nothing was changed; to make these changes: --yes"


def find_serving(session: RootSession) -> str:
    """Return what runs on the hosts over these links, "" where nothing of the cluster runs.

    Raises the SparkfleetError of a host that did not answer.
    """
    cluster = session.cluster.name
    if len(session.hosts) < 2:
        return ""
    surveys = session.pool.map(
        lambda connection: survey_host(connection, Settings(host=connection.host), cluster),
        session.hosts,
        repeatable=True,
    ).all()
    return describe_serving(cluster, surveys)


def describe_serving(cluster: str, surveys: Mapping[str, Survey]) -> str:
    """Return what runs, as "cluster default runs MODEL on HOSTS"; pure."""
    busy = {name: survey for name, survey in surveys.items() if survey.running_summary}
    if not busy:
        return ""
    models = sorted({survey.about.served_name for survey in busy.values()} - {""})
    model = ", ".join(models) or "processes without a deployment record"
    return f"cluster {cluster} runs {model} on {', '.join(busy)}"


def is_agreed(options: AddressApplyOptions | ChangeOptions, question: str, serving: str) -> bool:
    """Return whether the change is to be made; says so where it was only shown.

    Raises HostError where something is served and no one can be asked about it.
    """
    if options.check:
        return False
    asks = not (options.yes or options.json) and prompt.is_interactive()
    if serving and not asks and options.yes and not options.while_serving:
        raise HostError(
            f"{serving}: it would lose its links; nothing was changed",
            hint=f"stop it: {command_name('cluster.down')}; or change them all the same: "
            "--while-serving",
        )
    if serving and not options.json:
        print_lines(f"{serving}: it loses its links for a moment, and may not recover")
    if options.yes or (asks and prompt.confirm(question)):
        return True
    if not options.json:
        print_lines(ONLY_SHOWN)
    return False
