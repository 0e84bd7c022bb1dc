"""Fixtures of all unit tests."""

from __future__ import annotations

import pytest

from sparkfleet.remote.local import LocalConnection
from tests.programs import start_program


@pytest.fixture(autouse=True)
def _fork_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start programs on this machine as forks of one Python."""
    monkeypatch.setattr(LocalConnection, "_start", start_program)
