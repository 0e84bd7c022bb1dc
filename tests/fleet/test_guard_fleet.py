"""The memory guard on lab hosts: armed over SSH, left alone, against a memory that falls.

The ranks are of the stand-in engine, or a sleeping script; the lab's fault `memory` says that there
is hardly any left.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from sparkfleet.inventory.loading import load_inventory
from sparkfleet.lab import fleet, paths
from sparkfleet.lab.fleet import LabFleet
from sparkfleet.launch.host import memory_guard, processes
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.open import open_connection
from tests.commandline import Done, Event, becomes, type_command
from tests.commandline import processes as engines
from tests.standin import engine

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]

HEAD = "spark-01"
WORKER = "spark-02"
PLACE = {"cluster_dir": "~/vllm/.sparkfleet", "cluster": "default"}
RANK = "export SPARKFLEET_CLUSTER=default\nsleep 600 & exec sleep 601\n"


class Cluster:
    """Two lab hosts with the stand-in engine."""

    def __init__(self, inventory: Path) -> None:
        self._inventory = inventory

    def type(self, *words: str, events: Sequence[Event] = ()) -> Done:
        """Run a command line to its end; `events` happen meanwhile."""
        return type_command(*words, "--inventory", str(self._inventory), events=events)


@pytest.fixture(scope="module")
def cluster(lab: LabFleet, standin: None, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    return Cluster(engine.inventory(lab, tmp_path_factory.mktemp("guard")))


@pytest.fixture(autouse=True)
def whole(cluster: Cluster) -> Iterator[None]:
    yield
    engine.behave(HEAD, WORKER)
    fleet.set_fault(WORKER, "memory", clear=True)
    cluster.type("cluster.down")


def _fall() -> None:
    fleet.set_fault(WORKER, "memory")


def _sleeps() -> list[str]:
    return fleet.run_on(WORKER, ["pgrep", "-a", "sleep"], check=False).stdout.splitlines()


def test_ranks_are_stopped_without_a_connection_and_with_a_full_disk() -> None:
    host = load_inventory([str(paths.INVENTORY)]).hosts[WORKER]
    fleet.run_on(WORKER, ["sh", "-c", "sleep 999 >/dev/null 2>&1 &"])
    with open_connection(host) as link:
        processes.write_files(link, PLACE, {"serve.sh": RANK})
        memory_guard.arm_guard(link, PLACE, Settings(host=host))
        processes.start_process(link, PLACE, "serve", "serve.sh", hash_="h")
    assert len(_sleeps()) == 3
    fleet.set_fault(WORKER, "disk-full")
    _fall()
    assert becomes(lambda: len(_sleeps()) == 1), _sleeps()
    fleet.set_fault(WORKER, "disk-full", clear=True)
    assert "sleep 999" in _sleeps()[0]


def test_memory_that_falls_during_a_start_is_its_first_cause(cluster: Cluster) -> None:
    engine.misbehave(HEAD, "serve", at="Starting to load model", hang=True)
    fall = Event(mark="TASK [Wait until", deed=lambda _: _fall())
    done = cluster.type("cluster.up", "--tp", "2", events=[fall])
    assert done.code == 2, done.output
    # The head dies with the rank, and may be seen first.
    assert re.search(r"fatal: \[spark-0[12]\] FAILED! => ", done.output), done.output
    causes = re.findall(r"^cause on (\S+): (.*)$", done.output, re.MULTILINE)
    assert causes[0][0] == WORKER
    assert causes[0][1].startswith("The memory guard stopped the ranks: 0.1 GiB were available")
    assert {host: engines(host) for host in (HEAD, WORKER)} == {HEAD: {}, WORKER: {}}


def test_nothing_starts_where_there_is_too_little_to_begin_with(cluster: Cluster) -> None:
    _fall()
    done = cluster.type("cluster.up", "--tp", "2")
    assert done.code == 2, done.output
    assert "MemAvailable: expected at least 0.2 GiB" in done.output
    assert "TASK [Replace the previous deployment]" not in done.output


def test_a_rank_that_was_ended_while_it_served_shows_why_and_is_started_again(
    cluster: Cluster,
) -> None:
    assert cluster.type("cluster.up", "--tp", "2").code == 0
    again = cluster.type("cluster.up", "--tp", "2")
    assert again.recap(WORKER)["changed"] == 0, again.output
    _fall()
    assert becomes(lambda: engines(WORKER) == {}), engines(WORKER)
    status = cluster.type("cluster.status")
    assert "spark-02: memory guard: 0.1 GiB were available" in status.output
    assert "while serving" in status.output
    fleet.set_fault(WORKER, "memory", clear=True)
    assert cluster.type("cluster.up", "--tp", "2").code == 0
    down = cluster.type("cluster.down")
    assert len(re.findall(r"GiB available, .* reclaimed in \d+ s", down.output)) == 2, down.output
    assert fleet.run_on(WORKER, ["pgrep", "-f", "guard.py"], check=False).stdout == ""
    assert "memory guard" not in cluster.type("cluster.status").output
