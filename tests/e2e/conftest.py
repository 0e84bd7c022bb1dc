"""Two lab hosts with the real engine and model."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from sparkfleet.lab import engine, fleet, model
from sparkfleet.lab.fleet import Fleet
from tests.commandline import LONGEST, Done, Type, command_line


@pytest.fixture(scope="module")
def lab() -> Iterator[Fleet]:
    """Boot two fresh hosts; whatever ran on the lab before, such as the demo, is gone."""
    engine.install(print)
    model.make(print)
    fleet.down()
    yield fleet.up(2)
    fleet.down()


@pytest.fixture(scope="module")
def run(lab: Fleet) -> Type:
    def call(*words: str) -> Done:
        done = subprocess.run(
            command_line(*words, "--inventory", str(lab.inventory)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONGEST,
            check=False,
        )
        return Done(code=done.returncode, output=done.stdout)

    return call
