"""Selection, order and time limit of the tests, and the scheduling of those that need the lab."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from sparkfleet.remote.local import LocalConnection
from tests.budget import configure_examples
from tests.workers import run_in_workers

# Started in the background, a shell lets us ignore Ctrl-C, and so would all that we start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

LAB = ("tests/e2e/", "tests/fleet/", "tests/gpu/")
# With two workers one has the lab, and the other starts with what takes longest.
FIRST = (*LAB, "tests/contract/", "tests/unit/weights/", "tests/unit/actions/")
CUT = "not started: the time of --budget is over"
BUDGET = pytest.StashKey[float]()  # the time at which it ends
_opened: list[LocalConnection] = []  # by the test that runs
_start_connection = LocalConnection.__init__


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """With `--workers`, give the tests of the lab, which is one, to one of them; others by file."""
    option = session.config.option
    if option.workers < 2 or option.collectonly or option.usepdb or session.testsfailed:
        return None
    return run_in_workers(session, option.workers, _name_group)


def _name_group(item: pytest.Item) -> str:
    return "lab" if item.nodeid.startswith(LAB) else item.nodeid.partition("::")[0]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--workers`, `--thorough`, `--variations` and `--budget`."""
    parser.addoption(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help="run the tests in N processes, a file at a time; those of the lab in one of them",
    )
    parser.addoption(
        "--thorough",
        action="store_true",
        help="also run tests that vary another test, and try more examples of each property",
    )
    parser.addoption(
        "--variations",
        action="store_true",
        help="run only the tests that vary another test, with the usual examples",
    )
    parser.addoption(
        "--budget",
        type=float,
        metavar="SECONDS",
        help="start no test after this time; the rest is skipped and listed by file",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Set the number of examples, and when the budget ends; workers count from their start.

    What all tests need is set here once, as a fixture for each of 11,000 tests takes its time.
    """
    configure_examples(thorough=config.getoption("--thorough"))
    os.environ.pop("COLUMNS", None)  # what is printed is as wide as in a pipe
    remember: Any = _remember_connection
    LocalConnection.__init__ = remember  # type: ignore[method-assign]  # for all tests
    budget = config.getoption("--budget")
    if budget is not None:
        config.stash[BUDGET] = time.monotonic() + budget


@pytest.hookimpl(tryfirst=True)  # before -m deselects
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect `thorough` tests unless requested, and put first what takes longest.

    With --thorough a property is a thorough test too, as it tries more examples. With
    --variations all but the thorough tests are deselected.
    """
    if config.getoption("--thorough"):
        for item in items:
            if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
                item.add_marker("thorough")
    else:
        wanted = config.getoption("--variations")
        marked = [bool(item.get_closest_marker("thorough")) for item in items]
        pairs = list(zip(items, marked, strict=True))
        config.hook.pytest_deselected(items=[item for item, mark in pairs if mark != wanted])
        items[:] = [item for item, mark in pairs if mark == wanted]
    items.sort(key=_rank)


def pytest_collection_finish() -> None:
    """Leave the tests, which all stay, out of each later collection of garbage."""
    gc.freeze()


def _rank(item: pytest.Item) -> int:
    """Return a test's place by its folder; the order within a folder stays."""
    ranks = [rank for rank, folder in enumerate(FIRST) if item.nodeid.startswith(folder)]
    return ranks[0] if ranks else len(FIRST)


@pytest.hookimpl(tryfirst=True)  # before a fixture boots the lab
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what would start after the budget."""
    if time.monotonic() > item.config.stash.get(BUDGET, float("inf")):
        pytest.skip(CUT)


def pytest_report_teststatus(
    report: pytest.CollectReport | pytest.TestReport,
) -> tuple[str, str, str] | None:
    """Keep what the budget cut apart from what cannot run on this machine."""
    return ("cut", "c", "CUT") if report.skipped and CUT in str(report.longrepr) else None


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List what the budget cut, by file."""
    cut = Counter(_list_files(terminalreporter.stats.get("cut", [])))
    if cut:
        terminalreporter.section(f"not started within --budget: {cut.total()} tests")
        for name, count in cut.items():
            terminalreporter.line(f"{count:5} {name}")


@pytest.fixture(autouse=True)
def _close_local_connections() -> Iterator[None]:
    """Close what a test left open: its helper program and three descriptors a connection."""
    _opened.clear()
    yield
    for connection in _opened:
        connection.close()
    _opened.clear()


def _remember_connection(connection: LocalConnection, *args: Any, **options: Any) -> None:
    _start_connection(connection, *args, **options)
    _opened.append(connection)


def _list_files(reports: list[pytest.TestReport]) -> Iterator[str]:
    for report in reports:
        yield report.nodeid.partition("::")[0]
