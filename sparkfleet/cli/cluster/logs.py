"""`cluster.logs`, and what the errors of hosts add up to."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Mapping, Sequence

from sparkfleet.cli.context import CommandContext, print_run_started, resolve_context
from sparkfleet.cli.options import Options, parse_number
from sparkfleet.cli.views.screen import create_screen
from sparkfleet.errors import MixedError, SparkfleetError, UnreachableError
from sparkfleet.launch.host import processes
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.open import open_connection
from sparkfleet.remote.pool import Answers, ConnectionPool
from sparkfleet.report import output_streams
from sparkfleet.report.visible import clean_log_text

DEFAULT_LINES = 40
EVERY = 1.0  # s between looks, with --follow
REACH = 1000  # lines that a look goes back: what is written faster shows a gap

Lines = Mapping[tuple[str, str], Sequence[str]]  # by host and role


def show_logs(options: Options, lines: str | None, *, follow: bool = False) -> int:
    """Print the end of every log of every host and return the exit code, 0 or 4.

    With `follow` go on with what is new, until Ctrl-C.
    """
    count = parse_number("lines", lines, DEFAULT_LINES)
    context = resolve_context(options, needs_recipe=False)
    print_run_started(options, context)
    with ConnectionPool(open_connection, forks=options.forks) as pool:
        answers = _fetch_cluster_logs(context, pool, count)
        _print_logs(answers)
        with contextlib.suppress(KeyboardInterrupt):  # its end, with 0
            last = _split_lines(_fetch_cluster_logs(context, pool, REACH)) if follow else {}
            while follow and output_streams.has_reader():
                time.sleep(EVERY)
                last = _print_new_lines(
                    last, _split_lines(_fetch_cluster_logs(context, pool, REACH))
                )
    return compute_exit_code(answers.errors)


def _fetch_cluster_logs(
    context: CommandContext, pool: ConnectionPool, count: int
) -> Answers[dict[str, str]]:
    return pool.map(
        lambda connection: _fetch_host_logs(context, connection, count), context.cluster.hosts
    )


def _fetch_host_logs(context: CommandContext, connection: Connection, count: int) -> dict[str, str]:
    settings = Settings(host=connection.host)
    place = processes.locate_deployment(settings, context.cluster.name)
    return processes.read_logs(connection, place, lines=count)


def _print_logs(answers: Answers[dict[str, str]]) -> None:
    out = create_screen(sys.stdout)
    for name, texts in answers.values.items():
        for role, text in texts.items():
            out.line(f"==> {name} {role} <==", "bold")
            out.line(clean_log_text(text).rstrip())
    for name, error in answers.errors.items():
        out.line(f"==> {name}: {error.message}", "red")


def _split_lines(answers: Answers[dict[str, str]]) -> Lines:
    return {
        (name, role): clean_log_text(text).splitlines()
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


def compute_exit_code(errors: Mapping[str, SparkfleetError], *, refused: bool = False) -> int:
    """Return what the errors of hosts add up to: 0, 2, 4 or 6; 2 also where a check `refused`."""
    codes = {4 if isinstance(error, UnreachableError) else 2 for error in errors.values()}
    codes |= {2} if refused else set()
    return MixedError.exit_code if len(codes) > 1 else next(iter(codes), 0)
