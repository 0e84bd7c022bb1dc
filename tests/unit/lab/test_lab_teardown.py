"""A lab is removed whole, whatever state it is in."""

from __future__ import annotations

from pathlib import Path

from sparkfleet.lab.host.teardown import thaw_cgroups
from sparkfleet.lab.paths import CGROUP


def test_paused_containers_are_thawed_so_that_they_can_be_killed(tmp_path: Path) -> None:
    first = tmp_path / "freezer" / CGROUP / "spark-01" / "0a1b"  # as cgroup v1 lays them out
    second = tmp_path / CGROUP / "spark-01" / "0a1b"  # and cgroup v2
    other = tmp_path / "freezer/docker/0a1b"
    for folder in (first, second, other):
        folder.mkdir(parents=True)
    (first / "freezer.state").write_text("FROZEN")
    (second / "cgroup.freeze").write_text("1")
    (other / "freezer.state").write_text("FROZEN")
    thaw_cgroups(tmp_path)
    assert (first / "freezer.state").read_text() == "THAWED"
    assert (second / "cgroup.freeze").read_text() == "0"
    assert (other / "freezer.state").read_text() == "FROZEN"
