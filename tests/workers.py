"""Runs the tests in several processes: forks of the one that collected them, a file at a time.

pytest-xdist collects in each process, and spends a millisecond on messages for each of 11,000 tests
that take ten on average; here it is a tenth of a millisecond.
"""

from __future__ import annotations

import atexit
import mmap
import os
import struct
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

NUMBER = struct.Struct("i")  # an index of a file's tests in the pipe, or of the test that runs
NONE = -1  # no test runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A fork that runs tests, as the process sees it that reports them."""

    pid: int
    reports: Connection
    running: mmap.mmap  # the index of the test that it runs


def run_in_workers(
    session: pytest.Session, count: int, group: Callable[[pytest.Item], str]
) -> bool:
    """Run the session's tests in `count` forks, and report them here.

    Neighbours with one `group` run one after the other in one worker, which then takes the next
    such group. Raises `Failed` and `Interrupted` of the session as one process does, and makes a
    worker that ends by itself a failure of the test that it ran.
    """
    groups = [list(tests) for _, tests in groupby(session.items, key=group)]
    getattr(session.config, "_tmp_path_factory").getbasetemp()  # noqa: B009 - one for all forks
    taken, given = os.pipe()
    for number in range(len(groups)):
        os.write(given, NUMBER.pack(number))
    os.close(given)
    sys.stdout.flush()
    workers: list[Worker] = []
    for _ in range(min(count, len(groups))):
        workers.append(_fork(session, groups, taken, workers))
    os.close(taken)
    missing = {item.nodeid: item for item in session.items}
    try:
        _report_until_end(session, {worker.reports: worker for worker in workers}, missing)
    finally:
        for worker in workers:
            worker.reports.close()  # which ends it at its next test
            os.waitpid(worker.pid, 0)
    for item in missing.values():
        _report_failure(session, item, "not run: its worker ended")
    return True


def _report_until_end(
    session: pytest.Session, workers: dict[Any, Worker], missing: dict[str, pytest.Item]
) -> None:
    """Report what the workers send until all have ended; takes from `missing` what has run."""
    while workers:
        for reports in wait(list(workers)):
            try:
                found: list[pytest.TestReport] = workers[reports].reports.recv()
            except (EOFError, ConnectionResetError):
                (index,) = NUMBER.unpack(workers.pop(reports).running[:])
                if index != NONE and missing.pop(session.items[index].nodeid, None):
                    _report_failure(session, session.items[index], "it ended its worker")
                continue
            missing.pop(found[-1].nodeid, None)
            for report in found:
                session.config.hook.pytest_runtest_logreport(report=report)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)


def _report_failure(session: pytest.Session, item: pytest.Item, reason: str) -> None:
    report = pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords={},
        outcome="failed",
        longrepr=reason,
        when="call",
    )
    session.config.hook.pytest_runtest_logreport(report=report)


def _fork(
    session: pytest.Session,
    groups: Sequence[Sequence[pytest.Item]],
    taken: int,
    others: Sequence[Worker],
) -> Worker:
    reports, theirs = Pipe(duplex=False)
    running = mmap.mmap(-1, NUMBER.size)
    running[:] = NUMBER.pack(NONE)
    pid = os.fork()
    if pid:
        theirs.close()
        return Worker(pid=pid, reports=reports, running=running)
    for connection in (reports, *(other.reports for other in others)):
        connection.close()
    status = 1
    try:
        session.config.pluginmanager.register(_Reporter(reports=theirs))
        _capture_anew(session.config)
        _run_groups(session, groups, taken, running)
        status = 0
    except (KeyboardInterrupt, BrokenPipeError):
        status = 2
    except BaseException:  # noqa: BLE001 - else two processes would go on from here
        traceback.print_exc()
    finally:
        if status != 1:
            running[:] = NUMBER.pack(NONE)
        _exit(theirs, status)
    raise AssertionError


def _capture_anew(config: pytest.Config) -> None:
    """Write what tests print to a file of this process: forks share the offset of one."""
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()


def _run_groups(
    session: pytest.Session,
    groups: Sequence[Sequence[pytest.Item]],
    taken: int,
    running: mmap.mmap,
) -> None:
    """Run one group after the other until none is left; each test is given the next one."""
    places = {item: NUMBER.pack(index) for index, item in enumerate(session.items)}
    items = _take_groups(groups, taken)
    item = next(items, None)
    try:
        while item is not None:
            following = next(items, None)
            running[:] = places[item]
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            item = following
    finally:
        session._setupstate.teardown_exact(None)


def _take_groups(groups: Sequence[Sequence[pytest.Item]], taken: int) -> Iterator[pytest.Item]:
    while number := os.read(taken, NUMBER.size):
        yield from groups[NUMBER.unpack(number)[0]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reporter:
    """Sends the reports of each test in place of showing them."""

    reports: Connection

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        found = runtestprotocol(item, log=False, nextitem=nextitem)
        self.reports.send(found)
        return True


def _exit(reports: Connection, status: int) -> None:
    """End as Python does, but free no memory, which would first be copied."""
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    reports.close()
    os._exit(status)
