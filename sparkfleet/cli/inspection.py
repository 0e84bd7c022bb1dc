"""Looking without changing: `cluster.status` and `cluster.logs`."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from sparkfleet.cli.asked import Asked, number
from sparkfleet.cli.resolution import Resolved, resolve
from sparkfleet.errors import MixedError, SparkfleetError, UnreachableError
from sparkfleet.launch import guards, processes
from sparkfleet.launch.survey import Survey, ask_survey
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.link import Link
from sparkfleet.remote.open import open_link
from sparkfleet.remote.pool import Pool

DEFAULT_LINES = 40


def show_status(asked: Asked) -> int:
    """Print a row for every host and return the exit code: 0, or 4 if one did not answer."""
    resolved = resolve(asked, needs_recipe=False)
    with Pool(open_link, forks=asked.forks) as pool:
        answers = pool.map(lambda link: _look(resolved, link), resolved.cluster.hosts)
    table = Table("host", "state", "roles", "processes", "deployment", box=None)
    for host in resolved.cluster.hosts:
        if host.name in answers.errors:
            table.add_row(host.name, "[red]unknown[/]", answers.errors[host.name].message, "", "")
        else:
            table.add_row(host.name, *_row(answers.values[host.name]))
    console = Console(highlight=False)
    for name, survey in answers.values.items():
        if survey.guard and survey.guard.reason:
            text = f"{name}: {survey.guard.reason}\n    {guards.FIX}"
            console.print(text, style="red", soft_wrap=True)
    console.print(table)
    return exit_code(answers.errors)


def _look(resolved: Resolved, link: Link) -> Survey:
    settings = Settings(host=link.host)
    return ask_survey(link, settings, resolved.cluster.name)


def _row(survey: Survey) -> tuple[str, str, str, str]:
    if survey.hash is None:
        state = "[yellow]orphans[/]" if survey.running else "stopped"
    else:
        state = "[red]broken[/]" if survey.dead else "[green]running[/]"
    roles = ", ".join(f"{name} (died)" if name in survey.dead else name for name in survey.roles)
    return state, roles, survey.running, survey.hash or ""


def show_logs(asked: Asked, lines: str | None) -> int:
    """Print the end of every log of every host and return the exit code, as `show_status` does."""
    count = number("lines", lines, DEFAULT_LINES)
    resolved = resolve(asked, needs_recipe=False)
    with Pool(open_link, forks=asked.forks) as pool:
        answers = pool.map(lambda link: _logs(resolved, link, count), resolved.cluster.hosts)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    for name, texts in answers.values.items():
        for role, text in texts.items():
            console.print(f"==> {name} {role} <==", style="bold")
            console.print(text.rstrip())
    for name, error in answers.errors.items():
        console.print(f"==> {name}: {error.message}", style="red")
    return exit_code(answers.errors)


def _logs(resolved: Resolved, link: Link, count: int) -> dict[str, str]:
    settings = Settings(host=link.host)
    place = processes.place(settings, resolved.cluster.name)
    texts = {role: processes.read_log(link, place, role, lines=count) for role in processes.ROLES}
    return {role: text for role, text in texts.items() if text}


def exit_code(errors: Mapping[str, SparkfleetError]) -> int:
    """Return what the errors of hosts add up to: 0, 2, 4 or 6."""
    codes = {4 if isinstance(error, UnreachableError) else 2 for error in errors.values()}
    return MixedError.exit_code if len(codes) > 1 else next(iter(codes), 0)
