"""The way in which these tests start programs, which is that of the unit tests."""

from __future__ import annotations

from tests.unit.conftest import pytest_runtest_setup, pytest_runtest_teardown

__all__ = ["pytest_runtest_setup", "pytest_runtest_teardown"]
