"""`cluster.logs`, and what the errors of hosts add up to."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console

from sparkfleet.cli.asked import Asked, number
from sparkfleet.cli.resolution import Resolved, resolve, tell
from sparkfleet.errors import MixedError, SparkfleetError, UnreachableError
from sparkfleet.launch import processes
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.link import Link
from sparkfleet.remote.open import open_link
from sparkfleet.remote.pool import Pool

DEFAULT_LINES = 40


def show_logs(asked: Asked, lines: str | None) -> int:
    """Print the end of every log of every host and return the exit code, 0 or 4."""
    count = number("lines", lines, DEFAULT_LINES)
    resolved = resolve(asked, needs_recipe=False)
    tell(asked, resolved)
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
    return processes.read_logs(link, place, lines=count)


def exit_code(errors: Mapping[str, SparkfleetError], *, refused: bool = False) -> int:
    """Return what the errors of hosts add up to: 0, 2, 4 or 6; 2 also where a check `refused`."""
    codes = {4 if isinstance(error, UnreachableError) else 2 for error in errors.values()}
    codes |= {2} if refused else set()
    return MixedError.exit_code if len(codes) > 1 else next(iter(codes), 0)
