"""Under Ray each host keeps its own interfaces, or the start ends with the names that do not."""

from __future__ import annotations

from dataclasses import replace

from sparkfleet import links
from sparkfleet.launch.deployment.deployment import Deployment, render_deployment
from sparkfleet.launch.deployment.environment import build_rank_environment
from sparkfleet.launch.deployment.node import DeploymentNode
from sparkfleet.launch.engines.native import NativeEngine
from sparkfleet.launch.startup.copied_environment import check_copied_environment
from tests.engines import deployed, settings
from tests.gb10 import Cluster, output, pair

BAD = output("vllm-0.20.2-ray-tp2-bad-head-ifname-copied-to-worker.log").split("\n")
GOOD = output("vllm-0.20.2-ray-tp2-nccl-good.log").split("\n")


def _crossed() -> Deployment:
    """Return the deployment of two Sparks whose cables are in different cages."""
    cluster = Cluster(*pair(1, 0))
    nodes = [
        DeploymentNode(
            settings=(own := settings(host.name)),
            rank=rank,
            address=str(cluster.fabric.address(host.name)),
            engine=NativeEngine(venv="/v"),
            folder="/f",
            weights="/w",
            model="/w/m",
            environment=build_rank_environment(
                own, links.compute_rank_env(cluster.fabric, host), cluster="default", hf_home="/w"
            ),
        )
        for rank, host in enumerate(cluster.hosts)
    ]
    return render_deployment("default", nodes, tp=2, pp=1, contents=[])


def test_names_that_differ_are_known() -> None:
    assert {"NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "VLLM_HOST_IP"} <= _crossed().per_host
    assert "HF_HOME" not in _crossed().per_host
    assert deployed(hosts=2)[0].per_host == frozenset()


def test_the_recorded_failure_is_named_by_its_line() -> None:
    crossed = _crossed()
    (result,) = [text for line in BAD if (text := check_copied_environment(crossed, line))]
    assert result == ("vLLM overrides NCCL_SOCKET_IFNAME on the workers with the head's values")


def test_the_recorded_fix_and_equal_names_pass() -> None:
    crossed = _crossed()
    assert [line for line in GOOD if check_copied_environment(crossed, line)] == []
    same = replace(_crossed(), per_host=frozenset())
    assert [line for line in BAD if check_copied_environment(same, line)] == []
