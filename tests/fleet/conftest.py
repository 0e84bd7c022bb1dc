"""The lab that most files of this folder use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sparkfleet.lab import fleet
from sparkfleet.lab.fleet import LabFleet
from tests.standin import engine


@pytest.fixture(scope="module")
def lab() -> Iterator[LabFleet]:
    """Boot two fresh hosts for the tests of a file, and remove them after these."""
    fleet.remove_fleet()  # such as that of ./demo, which serves
    yield fleet.start_fleet(2)
    fleet.remove_fleet()


@pytest.fixture(scope="module")
def standin(lab: LabFleet) -> None:
    """Install the stand-in engine on the hosts of the lab."""
    engine.install(*(host.name for host in lab.hosts))
