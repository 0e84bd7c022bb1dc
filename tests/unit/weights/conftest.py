"""Fixtures of most tests of weights: a home of their own, and a hub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from sparkfleet.weights import hub
from tests.doubles.hub_server import HubServer
from tests.weights import isolate


@pytest.fixture
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a test out of the caches of the user who runs it."""
    isolate(tmp_path, monkeypatch)


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask a hub again after 10 ms."""
    monkeypatch.setattr(hub, "WAITS", (0.01, 0.01, 0.01))


@pytest.fixture
def empty_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """Run a hub without models, and use it."""
    with HubServer() as running:
        monkeypatch.setattr(constants, "ENDPOINT", running.url)
        yield running
