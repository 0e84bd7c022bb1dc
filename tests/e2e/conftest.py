"""Two lab hosts with the real engine and model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sparkfleet.lab import fleet
from sparkfleet.lab.engine import install, model
from sparkfleet.lab.fleet import LabFleet
from tests.commandline import Type, type_with


@pytest.fixture(scope="module")
def lab() -> Iterator[LabFleet]:
    """Boot two fresh hosts; whatever ran on the lab before, such as the demo, is removed."""
    install.install_engine(print)
    model.ensure_model(print)
    fleet.remove_fleet()
    yield fleet.start_fleet(2)
    fleet.remove_fleet()


@pytest.fixture(scope="module")
def run(lab: LabFleet) -> Type:
    return type_with(lab.inventory)
