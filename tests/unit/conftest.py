"""The way in which all unit tests start programs."""

from __future__ import annotations

from typing import Any

import pytest

from sparkfleet.remote.local import LocalConnection
from tests import programs


@pytest.hookimpl(tryfirst=True)  # before any fixture
def pytest_runtest_setup() -> None:
    """Start programs on this machine as forks of one Python; a fixture would take more time."""
    start: Any = programs.start_program
    LocalConnection._start = start  # type: ignore[method-assign]  # for each test


@pytest.hookimpl(trylast=True)  # after every fixture
def pytest_runtest_teardown() -> None:
    """Start them as processes again, for the tests of another folder."""
    LocalConnection._start = programs._start_process  # type: ignore[method-assign]  # as it was
