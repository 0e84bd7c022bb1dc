"""Copies of a model on several hosts behind one address (`--dp`).

The engine is the stand-in of `tests/standin`; hosts, processes and signals are the lab's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from sparkfleet.lab import fleet
from tests.commandline import becomes
from tests.standin import engine
from tests.standin.cluster import HOSTS, Cluster, start_cluster

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]
HEAD, OTHER = HOSTS
MP = ("--dp", "2", "--executor", "mp")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with start_cluster(tmp_path_factory.mktemp("copies")) as made:
        yield made


def kill_copy(cluster: Cluster, host: str, title: str) -> None:
    """Kill the engine of the copy on a host, and wait until its command has ended too."""
    found = cluster.look()[host].processes
    fleet.run_on(host, ["kill", "-KILL", *(str(pid) for pid in found if title in found[pid])])
    assert becomes(lambda: not cluster.look()[host].processes)


def test_two_copies_answer_at_one_address_and_each_is_asked(cluster: Cluster) -> None:
    done = cluster.run("cluster.up", *MP)
    assert done.code == 0, done.output
    assert "copy 0: 12*17 -> 204; copy 1: 12*17 -> 204" in done.output
    assert "copy 0 on spark-01 (10.78.1.1)" in done.output
    assert "copy 1 on spark-02 (10.78.1.2)" in done.output
    again = cluster.run("cluster.up", *MP)
    assert [again.recap(host)["changed"] for host in HOSTS] == [0, 0]
    assert cluster.run("cluster.drift", *MP).code == 0
    status = cluster.run("cluster.status")
    assert status.code == 0, status.output
    assert "serving: 2 copies, 2 ranks, /health answers" in status.output


def test_a_copy_that_was_killed_is_named_and_started_again_with_the_other(
    cluster: Cluster,
) -> None:
    assert cluster.run("cluster.up", *MP).code == 0
    kill_copy(cluster, OTHER, "VLLM::EngineCore_DP1")
    status = cluster.run("cluster.status", "--output", "json")
    assert status.code == 2, status.output
    health = json.loads(status.output)["health"]
    assert health["state"] == "rank lost"
    assert "rank 1 (copy 1) on spark-02 is lost" in health["reason"]
    done = cluster.run("cluster.up", *MP)
    assert done.code == 0, done.output
    assert "copy 1: 12*17 -> 204" in done.output
    assert cluster.run("cluster.down").code == 0
    assert cluster.processes() == {HEAD: {}, OTHER: {}}


def test_all_copies_start_or_none_does(cluster: Cluster) -> None:
    assert cluster.run("cluster.down").code == 0
    engine.misbehave(OTHER, "serve", at="start", exit=3, say=["CUDA error"])
    done = cluster.run("cluster.up", *MP)
    engine.behave(*HOSTS)
    assert done.code == 2, done.output
    assert "CUDA error" in done.output
    assert cluster.processes() == {HEAD: {}, OTHER: {}}


@pytest.mark.thorough
def test_ray_starts_both_copies_from_one_command(cluster: Cluster) -> None:
    done = cluster.run("cluster.up", "--dp", "2")
    assert done.code == 0, done.output
    assert "copy 0: 12*17 -> 204; copy 1: 12*17 -> 204" in done.output
    assert "serving: 2 copies, 2 ranks" in cluster.run("cluster.status").output
    assert cluster.run("cluster.down").code == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--dp", "3"), "--dp 3 needs 3 Sparks"),
        (("--dp", "0"), "--dp"),
        (("--solo", "--dp", "2"), "--solo cannot be combined"),
        (
            ("--dp", "2", "--set", "vllm_args={data-parallel-size: 4}"),
            "this is decided by: --dp",
        ),
    ],
    ids=("too-many", "none", "solo", "own-option"),
)
def test_a_size_that_cannot_be_is_refused(
    cluster: Cluster, words: tuple[str, ...], why: str
) -> None:
    done = cluster.run("cluster.up", *words)
    assert done.code == 5, done.output
    assert why in done.output
