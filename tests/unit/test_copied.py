"""Under Ray each host keeps its own interfaces, or the start ends with the names that do not."""

from __future__ import annotations

from dataclasses import replace

from sparkfleet import links
from sparkfleet.launch.copied import complaint
from sparkfleet.launch.deployment import Deployment, deploy
from sparkfleet.launch.engines import Native
from sparkfleet.launch.environment import environment
from sparkfleet.launch.node import Node
from tests.engines import deployed, settings
from tests.gb10 import Cluster, output, pair

BAD = output("vllm-0.20.2-ray-tp2-bad-head-ifname-copied-to-worker.log").split("\n")
GOOD = output("vllm-0.20.2-ray-tp2-nccl-good.log").split("\n")


def _crossed() -> Deployment:
    """Return the deployment of two Sparks whose cables are in different cages."""
    cluster = Cluster(*pair(1, 0))
    nodes = [
        Node(
            settings=(own := settings(host.name)),
            rank=rank,
            address=str(cluster.fabric.address(host.name)),
            engine=Native(venv="/v"),
            folder="/f",
            weights="/w",
            model="/w/m",
            environment=environment(
                own, links.env(cluster.fabric, host), cluster="default", hf_home="/w"
            ),
        )
        for rank, host in enumerate(cluster.hosts)
    ]
    return deploy("default", nodes, tp=2, pp=1, contents=[])


def test_names_that_differ_are_known() -> None:
    assert {"NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "VLLM_HOST_IP"} <= _crossed().per_host
    assert "HF_HOME" not in _crossed().per_host
    assert deployed(hosts=2)[0].per_host == frozenset()


def test_the_recorded_failure_is_named_by_its_line() -> None:
    (told,) = [text for line in BAD if (text := complaint(_crossed(), line))]
    assert told == (
        "vLLM copies NCCL_SOCKET_IFNAME from the head to the other hosts, which have their own"
    )


def test_the_recorded_cure_and_equal_names_are_well() -> None:
    assert [line for line in GOOD if complaint(_crossed(), line)] == []
    same = replace(_crossed(), per_host=frozenset())
    assert [line for line in BAD if complaint(same, line)] == []
