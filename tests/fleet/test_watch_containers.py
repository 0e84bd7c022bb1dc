"""`cluster.watch` where the ranks are containers: the stand-in engine in real Docker."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from sparkfleet.lab import fleet
from sparkfleet.lab.engine import containers
from tests.commandline import command_line, within
from tests.standin import engine
from tests.standin.cluster import HOSTS, Cluster

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.thorough,  # tests/fleet/test_watch.py has the same without containers
    pytest.mark.timeout(400),
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
    pytest.mark.skipif(shutil.which("dockerd") is None, reason="apt-get install docker.io"),
]
LIMIT = 200.0  # seconds for a relaunch on a busy machine


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("watch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        lab = fleet.start_fleet(2)
        containers.start_docker()
        engine.install(*HOSTS)
        image = engine.install_image(*HOSTS)
        yield Cluster(lab=lab, inventory=engine.inventory(lab, folder, image=image))
        fleet.remove_fleet()


@pytest.mark.parametrize(
    ("executor", "host", "words"),
    [
        ("ray", "spark-01", ("kill", "sparkfleet-default-ray")),
        ("ray", "spark-02", ("pause", "sparkfleet-default-ray")),
        ("mp", "spark-02", ("kill", "sparkfleet-default-serve")),
        ("mp", "spark-01", ("pause", "sparkfleet-default-serve")),
    ],
)
def test_a_container_that_ends_or_freezes_is_relaunched_with_all_others(
    cluster: Cluster, executor: str, host: str, words: tuple[str, str]
) -> None:
    assert cluster.run("cluster.down").code == 0  # or the breaker waits after the last relaunch
    done = cluster.up("--executor", executor)
    assert done.code == 0, done.output
    before = list_containers()
    watching = command_line("cluster.watch", "--every", "1", "--inventory", str(cluster.inventory))
    with subprocess.Popen(watching, stdout=subprocess.DEVNULL) as watcher:
        fleet.run_on(host, ["docker", *words])
        relaunched = within(LIMIT, lambda: list_kinds(cluster)[-1] == "relaunched")
        watcher.terminate()
        watcher.wait()
    assert relaunched, cluster.run("cluster.events").output
    assert not before & list_containers()
    assert cluster.answers()


def list_kinds(cluster: Cluster) -> list[str]:
    """Return the kinds of all events of the cluster."""
    done = cluster.run("cluster.events", "--output", "json")
    return [event["kind"] for event in json.loads(done.output)["events"]]


def list_containers() -> set[str]:
    """Return the IDs of all containers of the cluster, on all hosts."""
    words = ["docker", "ps", "-aq", "--filter", "label=sparkfleet.cluster=default"]
    return {name for host in HOSTS for name in fleet.run_on(host, words).stdout.split()}
