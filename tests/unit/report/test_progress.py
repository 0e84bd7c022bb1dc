"""Transfer rate and remaining time, on a terminal and in plain lines."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console
from rich.progress import SpinnerColumn

from sparkfleet.quantities import format_seconds
from sparkfleet.report.events import Progress
from sparkfleet.report.screens import PlainScreen
from sparkfleet.report.terminal import TerminalScreen, VisibleConsole, create_progress_bars
from sparkfleet.report.text import TextReporter
from sparkfleet.report.transfer_rate import RateTracker


class Clock:
    """A clock that moves only when a test moves it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def _arrived(done: int, total: int | None = 10**10, host: str = "a") -> Progress:
    return Progress(host=host, text="gemma", done=done, total=total, bytes=True)


def _format(*marks: tuple[float, int], total: int | None = 10**10) -> str:
    clock = Clock()
    paces = RateTracker(clock)
    text = ""
    for at, done in marks:
        clock.now = 100 + at
        text = paces.annotate(_arrived(done, total)).text
    return text


def test_the_first_look_knows_no_rate() -> None:
    assert _format((0, 0)) == "gemma: 0 B of 10 GB"


def test_rate_and_time_left_are_shown() -> None:
    assert _format((0, 0), (2, 2 * 10**9)) == "gemma: 2.0 GB of 10 GB, 1000 MB/s, 8 s left"


def test_without_an_end_only_the_rate_is_shown() -> None:
    assert _format((0, 0), (2, 10**9), total=None) == "gemma: 1.0 GB, 500 MB/s"


def test_the_rate_is_that_of_the_last_seconds() -> None:
    marks = [(float(at), min(at, 20) * 10**8) for at in range(41)]
    assert _format(*marks) == "gemma: 2.0 GB of 10 GB"


def test_another_model_starts_anew() -> None:
    assert _format((0, 0), (5, 5 * 10**9), (6, 0), (7, 10**8)).endswith("100 MB/s, 99 s left")


def test_other_progress_is_left_as_it_is() -> None:
    event = Progress(host="a", text="shards", done=1, total=4)
    assert RateTracker(Clock()).annotate(event) == event


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (99.4, "99 s"), (100, "2 min"), (5999, "1 h 40 min"), (7500, "2 h 5 min")],
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@pytest.fixture
def plain() -> tuple[TextReporter, Clock, Callable[[], list[str]]]:
    clock = Clock()
    stream = io.StringIO()
    reporter = TextReporter(PlainScreen(stream, clock))
    return reporter, clock, lambda: stream.getvalue().splitlines()


def test_plain_lines_come_now_and_then_and_with_the_last_byte(
    plain: tuple[TextReporter, Clock, Callable[[], list[str]]],
) -> None:
    reporter, clock, lines = plain
    for step in range(25):
        clock.now = 100 + step / 2
        reporter.handle(_arrived(step * 4 * 10**8))
    reporter.handle(_arrived(10**10))
    assert [line.split(": ")[1].split(",")[0] for line in lines()] == [
        "0 B of 10 GB",
        "4.0 GB of 10 GB",
        "8.0 GB of 10 GB",
        "10 GB of 10 GB",
    ]


def test_plain_lines_of_other_work_are_never_left_out(
    plain: tuple[TextReporter, Clock, Callable[[], list[str]]],
) -> None:
    reporter, _, lines = plain
    for step in range(5):
        reporter.handle(Progress(host="a", text=f"step {step}", done=step, total=5))
    assert len(lines()) == 5


def test_a_terminal_counts_steps_and_shows_bytes_in_words() -> None:
    stream = io.StringIO()
    screen = TerminalScreen(Console(file=stream, force_terminal=True, width=100))
    screen.progress(Progress(host="a", text="shards", done=1, total=4))
    screen.progress(_arrived(5 * 10**9, host="b"))
    screen.clear()
    assert "1/4" in stream.getvalue()
    assert "5000000000" not in stream.getvalue()


@pytest.mark.parametrize(("encoding", "spins"), [("ascii", False), ("utf-8", True)])
def test_a_terminal_without_utf_8_gets_a_spinner_that_it_can_show(
    encoding: str, *, spins: bool
) -> None:
    console = VisibleConsole(
        file=io.TextIOWrapper(io.BytesIO(), encoding), force_terminal=True, width=80
    )
    (spinner, *_) = create_progress_bars(console).columns
    assert isinstance(spinner, SpinnerColumn)
    assert any(ord(letter) > 127 for frame in spinner.spinner.frames for letter in frame) == spins
