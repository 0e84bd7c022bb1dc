"""Selection, order and time limit of the tests, and the parts in which they run."""

from __future__ import annotations

import argparse
import gc
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from sparkfleet.remote.local import LocalConnection
from tests.budget import configure_examples

# Started in the background, a shell lets us ignore Ctrl-C, and so would all that we start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

CUT = "not started: the time of --budget is over"
BUDGET = pytest.StashKey[float]()  # the time at which it ends
_opened: list[LocalConnection] = []  # by the test that runs
_start_connection = LocalConnection.__init__


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import the files of other parts; None leaves the decision to others."""
    name = collection_path.relative_to(config.rootpath).as_posix()
    is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    return True if is_test and not _is_in_part(name, config) else None


def _is_in_part(file: str, config: pytest.Config) -> bool:
    """Return whether a file is of the part to run; files that parse the package stay together."""
    number, count = config.getoption("--part")
    name = "house" if "/unit/house/" in file else file
    inside: bool = crc32(name.encode()) % count == number - 1
    return inside


def parse_part(text: str) -> tuple[int, int]:
    """Return number and count of a part, as in ``1/4``."""
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"expected a part such as 1/4 (got {text!r})")
    return int(number), int(count)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--part`, `--thorough`, `--variations` and `--budget`."""
    parser.addoption(
        "--part",
        type=parse_part,
        default=(1, 1),
        metavar="K/N",
        help="run only the files of one of N parts, as ./test does in N processes",
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
    """Set the number of examples, and when the budget ends.

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
    """Deselect `thorough` tests unless requested, and those of other parts in files named as words.

    With --thorough a property is a thorough test too, as it tries more examples. With
    --variations all but the thorough tests are deselected.
    """
    inside = [_is_in_part(item.nodeid.partition("::")[0], config) for item in items]
    _select(config, items, inside)
    if config.getoption("--thorough"):
        for item in items:
            if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
                item.add_marker("thorough")
    else:
        wanted = config.getoption("--variations")
        marked = [bool(item.get_closest_marker("thorough")) for item in items]
        _select(config, items, [mark == wanted for mark in marked])


def _select(config: pytest.Config, items: list[pytest.Item], chosen: list[bool]) -> None:
    pairs = list(zip(items, chosen, strict=True))
    config.hook.pytest_deselected(items=[item for item, choose in pairs if not choose])
    items[:] = [item for item, choose in pairs if choose]


def pytest_collection_finish() -> None:
    """Leave the tests, which all stay, out of each later collection of garbage."""
    gc.freeze()


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
