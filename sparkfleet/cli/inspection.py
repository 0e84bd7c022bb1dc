"""`cluster.logs`, and what the errors of hosts add up to."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Mapping, Sequence

from sparkfleet.cli.asked import Asked, number
from sparkfleet.cli.resolution import Resolved, resolve, tell
from sparkfleet.cli.screen import screen
from sparkfleet.errors import MixedError, SparkfleetError, UnreachableError
from sparkfleet.launch import processes
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.link import Link
from sparkfleet.remote.open import open_link
from sparkfleet.remote.pool import Answers, Pool
from sparkfleet.report import lasting
from sparkfleet.report.visible import log_text

DEFAULT_LINES = 40
EVERY = 1.0  # s between looks, with --follow
REACH = 1000  # lines that a look goes back: what is written faster shows a gap

Lines = Mapping[tuple[str, str], Sequence[str]]  # by host and role


def show_logs(asked: Asked, lines: str | None, *, follow: bool = False) -> int:
    """Print the end of every log of every host and return the exit code, 0 or 4.

    With `follow` go on with what is new, until Ctrl-C.
    """
    count = number("lines", lines, DEFAULT_LINES)
    resolved = resolve(asked, needs_recipe=False)
    tell(asked, resolved)
    with Pool(open_link, forks=asked.forks) as pool:
        answers = _ask(resolved, pool, count)
        _show(answers)
        with contextlib.suppress(KeyboardInterrupt):  # its end, with 0
            last = _lines(_ask(resolved, pool, REACH)) if follow else {}
            while follow and lasting.heard():
                time.sleep(EVERY)
                last = _show_news(last, _lines(_ask(resolved, pool, REACH)))
    return exit_code(answers.errors)


def _ask(resolved: Resolved, pool: Pool, count: int) -> Answers[dict[str, str]]:
    return pool.map(lambda link: _logs(resolved, link, count), resolved.cluster.hosts)


def _logs(resolved: Resolved, link: Link, count: int) -> dict[str, str]:
    settings = Settings(host=link.host)
    place = processes.place(settings, resolved.cluster.name)
    return processes.read_logs(link, place, lines=count)


def _show(answers: Answers[dict[str, str]]) -> None:
    out = screen(sys.stdout)
    for name, texts in answers.values.items():
        for role, text in texts.items():
            out.line(f"==> {name} {role} <==", "bold")
            out.line(log_text(text).rstrip())
    for name, error in answers.errors.items():
        out.line(f"==> {name}: {error.message}", "red")


def _lines(answers: Answers[dict[str, str]]) -> Lines:
    return {
        (name, role): log_text(text).splitlines()
        for name, texts in answers.values.items()
        for role, text in texts.items()
    }


def _show_news(last: Lines, now: Lines) -> Lines:
    """Print the lines that `last` has not, each with its host and role; return both together.

    A host that did not answer keeps what was seen of it.
    """
    out = screen(sys.stdout)
    for (name, role), lines in now.items():
        for line in fresh(last.get((name, role), ()), lines):
            out.line(f"{name} {role} | {line}")
    return {**last, **now}


def fresh(last: Sequence[str], now: Sequence[str]) -> Sequence[str]:
    """Return the lines at the end of `now` that were not at the end of `last` before."""
    for seen in range(min(len(last), len(now)), 0, -1):
        if list(last[-seen:]) == list(now[:seen]):
            return now[seen:]
    return now


def exit_code(errors: Mapping[str, SparkfleetError], *, refused: bool = False) -> int:
    """Return what the errors of hosts add up to: 0, 2, 4 or 6; 2 also where a check `refused`."""
    codes = {4 if isinstance(error, UnreachableError) else 2 for error in errors.values()}
    codes |= {2} if refused else set()
    return MixedError.exit_code if len(codes) > 1 else next(iter(codes), 0)
