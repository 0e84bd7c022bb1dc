"""`cluster.list`: its exit code, and the hosts that it could not read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from sparkfleet.cli.cluster import list as cluster_list
from sparkfleet.cli.options import Options
from sparkfleet.launch.endpoint.health import HealthLook, HostLook
from sparkfleet.launch.endpoint.health.observation import RoleLook
from sparkfleet.launch.host.deployment_record import DeploymentRecord
from sparkfleet.model import Cluster

INVENTORY = """
sparks:
  hosts: {spark1: , spark2: , spark3: }
  vars:
    clusters: {desk: {hosts: "spark1,spark2"}, lab: {hosts: spark3}}
"""
STOPPED = HealthLook(hosts={"spark3": HostLook()})
LOST = HealthLook(hosts={}, errors={"spark3": "timed out"})
BROKEN = HealthLook(hosts={}, broken={"spark1": "no python3", "spark2": "no python3"})
SOLO = HostLook(hash="h", about=DeploymentRecord(hosts=("spark1",)))
SERVING = HealthLook(hosts={"spark1": SOLO}, errors={"spark2": "no route"})
REBOOTED = HostLook(
    hash="h",
    about=SOLO.about,
    rebooted=True,
    roles={"serve": RoleLook(pid=1, age=1.0)},
)
RANK_LOST = HealthLook(hosts={"spark1": REBOOTED}, errors={"spark2": "no route"})


def show(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    looks: Mapping[str, HealthLook],
    **settings: str,
) -> int:
    """Show the clusters as they look; return the exit code."""

    def look(_: object, cluster: Cluster, **__: object) -> HealthLook:
        return looks[cluster.name]

    path = folder / "hosts.yml"
    path.write_text(INVENTORY)
    monkeypatch.setattr(cluster_list, "look_at_cluster", look)
    options = Options(task="cluster.list", inventory=(str(path),), **settings)  # type: ignore[arg-type]  # all are texts
    return cluster_list.show_clusters(options)


@pytest.mark.parametrize(
    ("desk", "lab", "code"),
    [
        (BROKEN, STOPPED, 2),  # as cluster.status: its hosts answered
        (BROKEN, LOST, 6),
        (SERVING, STOPPED, 4),  # spark2 was not reached, although the deployment lacks it
        (RANK_LOST, STOPPED, 6),
        (HealthLook(hosts={"spark1": HostLook(), "spark2": HostLook()}), STOPPED, 0),
        (HealthLook(hosts={"spark1": HostLook(), "spark2": HostLook()}), LOST, 4),
    ],
)
def test_the_exit_code_combines_those_of_cluster_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, desk: HealthLook, lab: HealthLook, code: int
) -> None:
    assert show(tmp_path, monkeypatch, {"desk": desk, "lab": lab}) == code


def test_each_host_that_was_not_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    show(tmp_path, monkeypatch, {"desk": RANK_LOST, "lab": LOST})
    lines = capsys.readouterr().out.splitlines()
    assert "desk: spark2: no route" in lines
    assert [line for line in lines if "timed out" in line] == [
        "lab: unknown: spark3 was not reached: timed out"
    ]


def test_the_document_has_the_errors_and_the_exit_code_of_each_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    show(tmp_path, monkeypatch, {"desk": RANK_LOST, "lab": STOPPED}, output="json")
    document = json.loads(capsys.readouterr().out)
    assert document["exit_code"] == 6
    assert document["clusters"]["desk"]["errors"] == {"spark2": "no route"}
    assert [document["clusters"][name]["exit_code"] for name in ("desk", "lab")] == [6, 0]
