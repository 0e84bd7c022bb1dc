"""The verdict on health as text and as JSON, and the exit code that it gives."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from sparkfleet.cli.exit_codes import compute_exit_code
from sparkfleet.cli.views.screen import create_screen, print_lines
from sparkfleet.errors import SparkfleetError, UnreachableError
from sparkfleet.launch.endpoint.health import ClusterHealth, HealthState
from sparkfleet.report.events import Progress
from sparkfleet.report.screens import Screen
from sparkfleet.report.visible import escape_line

LATE = 5.0  # seconds until a wait is worth a line in a file or a pipe
COLOURS = {
    HealthState.SERVING: "green",
    HealthState.STARTING: "yellow",
    HealthState.DEGRADED: "yellow",
    HealthState.STOPPED: "",
}


def compute_health_exit_code(health: ClusterHealth, errors: Iterable[SparkfleetError] = ()) -> int:
    """Return 0 for what serves or was stopped, 2 for what should serve, 4 for a host not reached.

    `errors` are those of the hosts; 6 where some were not reached and the others should serve.
    """
    failures = tuple(errors)
    if health.state is HealthState.UNKNOWN:
        return compute_exit_code(failures) or UnreachableError.exit_code
    should_serve = health.should_serve and health.state is not HealthState.SERVING
    return compute_exit_code(failures, refused=should_serve)


def print_health(health: ClusterHealth) -> None:
    """Print the verdict, in colours on a terminal."""
    first, *rest = format_health(health)
    create_screen(sys.stdout).line(first, COLOURS.get(health.state, "red"))
    print_lines(*rest)


def format_health(health: ClusterHealth) -> Iterator[str]:
    """Yield the lines of a verdict: state and reason, the last line of its log, what to type."""
    yield str(health)
    lost = [rank for rank in health.ranks if rank.rank == health.rank and rank.problem]
    for rank in lost:
        if rank.last_line:
            yield f"  last line of its log: {escape_line(rank.last_line)}"
    if health.fix:
        yield f"  {health.fix}"


def serialize_health(health: ClusterHealth) -> dict[str, Any]:
    """Return the verdict for a JSON document."""
    content = {**asdict(health), "state": health.state.value}
    return {**content, "ranks": [asdict(rank) for rank in health.ranks]}


@contextmanager
def open_wait_display(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Yield the function that shows what is waited for, and for how long at most.

    A terminal shows it at once, for that time only; a file or a pipe gets a line if it takes more
    than `LATE` s. Nothing is shown if `quiet`.
    """
    if quiet:
        yield lambda _: None
        return
    screen = create_screen(sys.stdout)
    if sys.stdout.isatty():
        try:
            yield lambda text: screen.progress(Progress(host="waiting", text=text))
        finally:
            screen.clear()
        return
    line = _LateLine(screen)
    try:
        yield line.replace
    finally:
        line.cancel()


class _LateLine:
    """A line that is printed if nothing replaces it in time."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._timer: threading.Timer | None = None

    def replace(self, text: str) -> None:
        """Replace what is being waited for."""
        self.cancel()
        self._timer = threading.Timer(LATE, self._screen.line, (f"waiting: {text}",))
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        """Stop waiting."""
        if self._timer is not None:
            self._timer.cancel()
