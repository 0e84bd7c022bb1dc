"""The memory guard, run for real on this machine: it outlives its start and kills only its cluster.

Instead of taking the memory away, these tests ask for more than any machine has.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.actions.action import NoArgs
from sparkfleet.actions.deploy.wait_ready import WaitReady
from sparkfleet.actions.run_state import LaunchState, RunState
from sparkfleet.errors import CommandError, LaunchError
from sparkfleet.launch.deployment.deployment import Deployment
from sparkfleet.launch.host import memory_guard, processes
from sparkfleet.launch.host.deployment_record import DeploymentRecord
from sparkfleet.launch.host.memory_guard import Guard, GuardReason
from sparkfleet.model import Host, Value
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.local import LocalConnection
from tests.commandline import becomes, has_ended
from tests.scenes import inventory, scene
from tests.surveys import make_survey

SAMPLES = 4  # more than the two in a row that end ranks
CLUSTER = f"guarded-{os.getpid()}"
RANK = f"export SPARKFLEET_CLUSTER={CLUSTER}\nsleep 60 & exec sleep 60\n"
NEVER = 1
ALWAYS = 1 << 60  # bytes


class Node:
    """A folder of this machine as a host."""

    def __init__(self, root: Path) -> None:
        self.folder = root / CLUSTER
        self.place = {"cluster_dir": str(root), "cluster": CLUSTER}
        self.link = LocalConnection(Host(name="here"))

    def settings(self, *, loading: int = NEVER, serving: int = NEVER, samples: int = 2) -> Settings:
        limits = {"guard_loading": loading, "guard_serving": serving, "guard_samples": samples}
        own = {name: Value(data=data) for name, data in limits.items()}
        return Settings(host=Host(name="here", vars=own))

    def arm(self, **limits: int) -> int:
        memory_guard.arm_guard(self.link, self.place, self.settings(**limits))
        return self.pid()

    def pid(self) -> int:
        """Return the guard that its file names."""
        words = (self.folder / memory_guard.FILE).read_text().split('"pid": ')[1]
        return int(words.split(",")[0])

    def start(self) -> int:
        processes.write_files(self.link, self.place, {"serve.sh": RANK})
        return processes.start_process(self.link, self.place, "serve", "serve.sh", hash_="h")

    def serves(self) -> None:
        processes.write_files(self.link, self.place, {memory_guard.SERVING: ""})

    def guard(self) -> Guard | None:
        path = self.folder / memory_guard.FILE
        return memory_guard.parse_guard(path.read_text() if path.exists() else None)

    def reason(self) -> str:
        guard = self.guard()
        return str(guard.reason) if guard and guard.reason else ""

    def stop(self) -> int:
        return processes.stop_processes(self.link, self.place, grace=1)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    one = Node(tmp_path)
    yield one
    one.stop()


def _wait_for_samples(pid: int, count: int) -> None:
    """Wait until the guard has read all of /proc/meminfo `count` times more."""
    size = len(Path("/proc/meminfo").read_bytes())
    before = _count_bytes_read(pid)
    assert becomes(lambda: _count_bytes_read(pid) >= before + count * size)


def _count_bytes_read(pid: int) -> int:
    return int(Path(f"/proc/{pid}/io").read_text().split("rchar: ")[1].split()[0])


def test_ranks_end_below_the_limit_and_the_reason_stays(node: Node) -> None:
    pid = node.arm(serving=ALWAYS)
    rank = node.start()
    node.serves()
    assert becomes(lambda: has_ended(rank))
    assert becomes(lambda: has_ended(pid))
    assert "below 1073741824.0 GiB while serving; largest processes: " in node.reason()
    log = processes.read_log(node.link, node.place, "guard")
    assert " memory guard: " in log
    assert f'"stopped": [{rank}' in log


def test_nothing_without_the_label_is_ended(node: Node) -> None:
    foreign = subprocess.Popen(["sleep", "60"], env={**os.environ, "SPARKFLEET_CLUSTER": "other"})
    node.arm(serving=ALWAYS)
    rank = node.start()
    node.serves()
    assert becomes(lambda: has_ended(rank))
    assert foreign.poll() is None
    foreign.kill()
    foreign.wait()


def test_the_limit_for_serving_counts_only_once_it_serves(node: Node) -> None:
    pid = node.arm(serving=ALWAYS)
    rank = node.start()
    _wait_for_samples(pid, SAMPLES)
    assert not has_ended(rank)
    assert not has_ended(pid)
    assert node.reason() == ""


def test_a_single_low_sample_does_not_count(node: Node) -> None:
    pid = node.arm(serving=ALWAYS, samples=1000)
    rank = node.start()
    node.serves()
    _wait_for_samples(pid, SAMPLES)
    assert not has_ended(rank)


def test_a_rank_that_the_guard_killed_is_dead_and_not_stopped(node: Node) -> None:
    node.arm(serving=ALWAYS)
    node.start()
    node.serves()
    assert becomes(lambda: bool(node.reason()))
    assert (node.folder / "deployment.json").exists()


def test_a_guard_ends_with_its_deployment(node: Node) -> None:
    pid = node.arm()
    node.start()
    assert not has_ended(pid)
    node.stop()
    assert becomes(lambda: has_ended(pid))
    assert node.guard() is None


def test_a_second_guard_takes_the_place_of_the_first(node: Node) -> None:
    first = node.arm()
    second = node.arm()
    assert first != second
    assert becomes(lambda: has_ended(first))
    assert not has_ended(second)


def test_a_guard_does_not_count_as_a_process_of_the_deployment(node: Node) -> None:
    node.arm()
    more: dict[str, Any] = {"do": "survey", "files": [], "venv": None}
    assert node.link.run_program("deployment/processes", {**node.place, **more})["processes"] == []


def test_ps_shows_a_guard_and_its_cluster_by_name(node: Node) -> None:
    process = Path(f"/proc/{node.arm()}")
    words = (process / "cmdline").read_bytes().rstrip(b"\0")
    assert words == f"sparkfleet-memory-guard {CLUSTER}".encode()
    assert (process / "comm").read_text() == "sparkfleet-memo\n"


def test_the_guard_is_not_armed_where_memory_is_too_short_already(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_guard, "PATIENCE", 0.3)
    with pytest.raises(CommandError, match="GiB of memory is available; the guard stops ranks"):
        node.arm(loading=ALWAYS)
    assert node.guard() is None


def test_a_loaded_deployment_has_the_limit_for_serving(node: Node) -> None:
    memory_guard.arm_guard(node.link, node.place, node.settings(loading=ALWAYS), loads=False)
    assert not has_ended(node.pid())


def test_a_host_without_a_guard_is_left_to_the_kernel(node: Node) -> None:
    without = Settings(host=Host(name="here", vars={"guard": Value(data=False)}))
    assert memory_guard.arm_guard(node.link, node.place, without) is None
    assert not node.folder.exists()


def test_the_armed_guard_has_the_wanted_limits(node: Node) -> None:
    node.arm(serving=5, samples=7)
    assert node.guard() == memory_guard.plan_guard(node.settings(serving=5, samples=7))
    assert node.guard() != memory_guard.plan_guard(node.settings(serving=6, samples=7))


def test_a_reason_names_who_held_memory_of_the_gpu_where_that_is_known() -> None:
    reason = GuardReason(
        at=0,
        phase="serving",
        available=2 << 30,
        limit=3 << 30,
        top=({"pid": 7, "name": "python3", "rss": 5 << 30},),
        gpu=("8, VLLM::Worker, 101000 MiB",),
    )
    result = str(reason)
    assert "memory guard: 2.0 GiB were available at " in result
    assert (
        "largest processes: python3 (pid 7) 5.0 GiB; on the GPU: 8, VLLM::Worker, 101000" in result
    )


@pytest.mark.parametrize("text", [None, "", "{", "null"])
def test_an_incomplete_file_means_no_guard(text: str | None) -> None:
    assert memory_guard.parse_guard(text) is None


def test_the_wait_for_readiness_names_the_guard_as_the_cause(node: Node, tmp_path: Path) -> None:
    node.arm(serving=ALWAYS)
    node.start()
    node.serves()
    assert becomes(lambda: bool(node.reason()))
    here = inventory(("here",), engine_venv="/v", weights_dir=str(tmp_path))
    with scene(tmp_path, hosts=here) as made:
        made.provide(RunState(launch=_launch(node)))
        step = WaitReady(NoArgs())
        with pytest.raises(LaunchError, match=r"memory guard: .* while serving") as caught:
            step.apply(made, node.link, step.plan(made, {"here": None})["here"])
    assert "gpu-memory-utilization" in str(caught.value.hint)


def _launch(node: Node) -> LaunchState:
    survey = make_survey(home="/", folder=str(node.folder))
    deployment = Deployment(
        cluster=CLUSTER, tp=1, pp=1, served_name="m", port=1, files={}, hash="h"
    )
    return LaunchState(
        deployment=deployment,
        engines={},
        surveys={"here": survey},
        about={"here": DeploymentRecord()},
        reason="a test",
    )
