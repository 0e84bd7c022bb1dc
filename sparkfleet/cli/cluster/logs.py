"""`cluster.logs`: the end of every log, and what is added to it."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from sparkfleet.cli.cluster.options import LogsOptions
from sparkfleet.cli.context import open_cluster
from sparkfleet.cli.exit_codes import compute_exit_code
from sparkfleet.cli.views.screen import create_screen
from sparkfleet.launch.host import processes
from sparkfleet.model import Host
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.pool import Answers, ConnectionPool
from sparkfleet.report import output_streams
from sparkfleet.report.redaction import redact_secrets
from sparkfleet.report.visible import clean_log_text

EVERY = 1.0  # seconds between looks, with --follow
REACH = 1000  # lines read at each check; faster logs show a gap

Lines = Mapping[tuple[str, str], Sequence[str]]  # by host and role


def show_logs(options: LogsOptions) -> int:
    """Print the end of every log of every host and return the exit code, 0 or 4.

    With --follow also print new lines, until Ctrl-C.
    """
    with open_cluster(options) as session:
        cluster = session.context.cluster
        return follow_logs(
            session.pool,
            cluster.hosts,
            lambda host: processes.locate_deployment(Settings(host=host), cluster.name),
            lines=options.lines,
            follow=options.follow,
        )


def follow_logs(
    pool: ConnectionPool,
    hosts: Sequence[Host],
    locate: Callable[[Host], Mapping[str, str]],
    *,
    lines: int,
    follow: bool,
) -> int:
    """Print the end of every log that `locate` finds on `hosts`, and what is added to it."""

    def fetch(count: int) -> Answers[dict[str, str]]:
        return pool.map(
            lambda connection: processes.read_logs(
                connection, locate(connection.host), lines=count
            ),
            hosts,
            repeatable=True,
        )

    answers = fetch(lines)
    _print_logs(answers)
    with contextlib.suppress(KeyboardInterrupt):  # ends --follow
        last: Lines = _split_lines(fetch(REACH)) if follow else {}
        while follow and output_streams.has_reader():
            time.sleep(EVERY)
            last = _print_new_lines(last, _split_lines(fetch(REACH)))
    return compute_exit_code(answers.errors.values())


def _print_logs(answers: Answers[dict[str, str]]) -> None:
    out = create_screen(sys.stdout)
    for name, texts in answers.values.items():
        for role, text in texts.items():
            out.line(f"==> {name} {role} <==", "bold")
            out.line(clean_log_text(redact_secrets(text)).rstrip())
    for name, error in answers.errors.items():
        out.line(f"==> {name}: {error.message}", "red")


def _split_lines(answers: Answers[dict[str, str]]) -> Lines:
    return {
        (name, role): clean_log_text(redact_secrets(text)).splitlines()
        for name, texts in answers.values.items()
        for role, text in texts.items()
    }


def _print_new_lines(last: Lines, now: Lines) -> Lines:
    """Print the lines that `last` has not, each with its host and role; return both together.

    A host that did not answer keeps what was seen of it.
    """
    out = create_screen(sys.stdout)
    for (name, role), lines in now.items():
        for line in find_new_lines(last.get((name, role), ()), lines):
            out.line(f"{name} {role} | {line}")
    return {**last, **now}


def find_new_lines(last: Sequence[str], now: Sequence[str]) -> Sequence[str]:
    """Return the lines at the end of `now` that were not at the end of `last` before."""
    for overlap in range(min(len(last), len(now)), 0, -1):
        if list(last[-overlap:]) == list(now[:overlap]):
            return now[overlap:]
    return now
