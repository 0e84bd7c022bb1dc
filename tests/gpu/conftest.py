"""Two lab hosts with real GPUs; without a GPU and its engine, all of it is skipped.

With one GPU the hosts share it: all but memory and speed is as with two.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkfleet.errors import UsageError
from sparkfleet.lab import fleet
from sparkfleet.lab.engine import install, model
from sparkfleet.lab.engine.kinds import GPU
from sparkfleet.lab.fleet import LabFleet
from sparkfleet.lab.host.gpus import LabGpu, choose_gpus, find_gpus
from tests.commandline import Type, type_with

HOSTS = 2


@pytest.fixture(scope="session")
def gpus() -> tuple[LabGpu, ...]:
    """Return the GPUs of the two hosts, or skip."""
    try:
        found = find_gpus()
    except UsageError as error:
        pytest.skip(error.message)
    if not install.is_complete(GPU):
        pytest.skip("the engine for GPUs is not installed: lab.engine --gpu")
    return choose_gpus(found, HOSTS, share=True)


@pytest.fixture(scope="module")
def lab(gpus: tuple[LabGpu, ...]) -> Iterator[LabFleet]:
    """Boot two fresh hosts; whatever ran on the lab before is removed."""
    model.ensure_model(print, GPU)
    fleet.remove_fleet()
    yield fleet.start_fleet(HOSTS, gpus=gpus)
    fleet.remove_fleet()


@pytest.fixture(scope="module")
def run(lab: LabFleet) -> Type:
    return type_with(lab.inventory)


def read_used_memory(gpus: tuple[LabGpu, ...]) -> dict[int, int]:
    """Return the MiB in use by the index of the GPU."""
    query = ("--query-gpu=index,memory.used", "--format=csv,noheader,nounits")
    done = subprocess.run(["nvidia-smi", *query], capture_output=True, text=True, check=True)
    rows = (line.split(",") for line in done.stdout.splitlines())
    first = len(set(gpus))
    return {int(index): int(memory) for index, memory in rows if int(index) < first}


@pytest.fixture(scope="session")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all tests of a session share."""
    return tmp_path_factory.mktemp("gpu")
