"""The memory of all clusters that run on a host: what is read of each, the sum, the refusal."""

from __future__ import annotations

from typing import Any

from sparkfleet.fit.interval import Interval
from sparkfleet.fit.memory import NodeMemory
from sparkfleet.launch.host.deployment_record import DeploymentRecord
from sparkfleet.launch.preflight.running_clusters import (
    ClusterNeed,
    RunningCluster,
    check_shared_memory,
    estimate_cluster_need,
    find_running_cluster,
)
from sparkfleet.model import Severity, Verdict
from tests.engines import survey
from tests.models import GIB, config

ROOM = NodeMemory(host="spark-1", total=100 * GIB, available=90 * GIB)
NATIVE = "#!/bin/bash\n# Serves m\nexec /opt/vllm/bin/vllm serve /data/models/m \\\n    {}\n"
DOCKER = (
    "exec docker run --name=x image /sparkfleet/container.sh vllm serve /models/org/m \\\n {}\n"
)
MODEL = {
    "files": {"config.json": config("gemma-4-26b-a4b-it-nvfp4")},
    "tensors": [["w", "BF16", 2, 1, 1 << 30, 2 * GIB]],
    "drafts": {},
}


def running(
    options: str = "--gpu-memory-utilization=0.5", script: str = NATIVE, **changes: Any
) -> RunningCluster | None:
    """Return what is read of a cluster named small, whose head and only host is spark-1."""
    about = DeploymentRecord(hosts=("spark-1",))
    seen = survey(
        **{
            "files": {"vllm-serve.sh": script.format(options)},
            "hash": "h",
            "about": about,
            **changes,
        }
    )
    return find_running_cluster("small", {"spark-1": seen}, "/home/nvidia/vllm")


def need(options: str, shape: Any = None) -> ClusterNeed:
    found = running(options)
    assert found is not None
    return estimate_cluster_need(found, shape)


def judged(claim: float, *others: ClusterNeed, room: NodeMemory = ROOM) -> list[Verdict]:
    return [*check_shared_memory("large", room, Interval.of(claim * GIB), others)]


def test_what_runs_is_read_from_the_script_that_started_it() -> None:
    found = running()
    assert found is not None
    assert (found.options.util, found.folder) == (0.5, "/data/models/m")


def test_the_folder_of_a_container_is_read_as_its_host_has_it() -> None:
    found = running(script=DOCKER)
    assert found is not None
    assert found.folder == "/home/nvidia/vllm/org/m"


def test_a_cluster_that_is_stopped_or_died_takes_nothing() -> None:
    assert running(hash=None) is None
    assert running(dead=("serve",)) is None
    assert running(files={}) is None


def test_more_than_the_memory_is_refused_with_the_sum_and_both_names() -> None:
    (verdict,) = judged(60, need("--gpu-memory-utilization=0.5"))
    assert verdict.refuses
    assert verdict.host == "spark-1"
    assert verdict.expected == "at most 100.0 GiB together"
    assert verdict.seen == "at least 110.0 GiB: 50.0 GiB small + 60.0 GiB large"
    assert "give large less: gpu-memory-utilization: 0.50" in verdict.fix
    assert "cluster.down --cluster small" in verdict.fix


def test_parts_that_add_up_to_the_memory_pass_with_the_sum() -> None:
    (verdict,) = judged(50, need("--gpu-memory-utilization=0.5"))
    assert verdict.severity is Severity.OK
    assert verdict.seen == "at least 100.0 GiB: 50.0 GiB small + 50.0 GiB large"


def test_the_reserve_of_a_host_counts() -> None:
    room = NodeMemory(host="spark-1", total=100 * GIB, kept=8 * GIB)
    (verdict,) = judged(50, need("--gpu-memory-utilization=0.5"), room=room)
    assert verdict.refuses
    assert verdict.expected == "at most 92.0 GiB together"
    assert "gpu-memory-utilization: 0.42" in verdict.fix


def test_a_set_cache_counts_with_its_weights_and_the_runtime() -> None:
    (verdict,) = judged(92, need(f"--kv-cache-memory-bytes={4 * GIB}", MODEL))
    assert verdict.refuses
    assert " GiB small + 92.0 GiB large" in verdict.seen
    low = float(verdict.seen.split(": ")[1].split(" ")[0])
    assert low >= 4 + 2 + 4  # the cache, the weights, the least of the runtime


def test_a_model_that_cannot_be_read_counts_with_its_cache_alone() -> None:
    (verdict,) = judged(92, need(f"--kv-cache-memory-bytes={4 * GIB}"))
    assert not verdict.refuses
    assert verdict.seen.startswith("at least 96.0 GiB: 4.0 to ")


def test_nothing_helps_but_a_stop_where_nothing_is_left() -> None:
    (verdict,) = judged(50, need("--gpu-memory-utilization=1"))
    assert "stop another first" in verdict.fix
    assert "give" not in verdict.fix


def test_clusters_on_other_hosts_are_not_in_the_sum() -> None:
    room = NodeMemory(host="spark-2", total=100 * GIB)
    assert judged(60, need("--gpu-memory-utilization=0.5"), room=room) == []
    assert judged(60) == []
