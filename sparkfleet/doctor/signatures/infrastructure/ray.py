"""Failures of Ray: its nodes, its resources and its workers."""

from __future__ import annotations

import re

from sparkfleet.doctor.signatures.row import Clues, FailureRole, Signature

_WAITS = (
    r"(?:Waiting for creating a placement group|Cannot provide a placement group"
    r"|No available node types can fulfill)"
)


def _is_no_ray_node(match: re.Match[str], clues: Clues) -> bool:
    return match["ip"] not in clues.ray


def _is_shortage(match: re.Match[str], clues: Clues) -> bool:
    return match["ip"] is None or match["ip"] in clues.ray


ROWS = (
    Signature(
        id="ray-unknown-address",
        pattern=rf"{_WAITS}.{{0,2000}}'node:(?P<ip>[^'\n]+)'",
        cause="{ip} is not a Ray node, and the engine waits forever for its GPU; Ray has {ray}.",
        fix=(
            "Set VLLM_HOST_IP and `ray start --node-ip-address` to the same fabric address on "
            "each host; `{task:cluster.up}` does this, from link_interfaces."
        ),
        source="eugr/spark-vllm-docker#227",
        holds=_is_no_ray_node,
        near_miss="Created a placement group for [{'node:192.168.100.10': 0.001, 'GPU': 1.0}]",
    ),
    Signature(
        id="ray-missing-gpus",
        pattern=(
            rf"{_WAITS}(?:.{{0,2000}}'node:(?P<ip>[^'\n]+)')?"
            r"|number of required GPUs exceeds the total number of available GPUs"
            r"|Total available GPUs [\d.]{1,8} is less than total desired GPUs"
            r"|Placement group creation timed out|request cannot be scheduled right now"
        ),
        cause="Ray has fewer free GPUs than the engine asks for: a worker has not joined.",
        fix="Check the worker's Ray log; `ray status` on the head must show every GPU.",
        source="NVIDIA/dgx-spark-playbooks#63; TechPreacher/dgx-spark-vllm-cluster glm/README.md",
        role=FailureRole.SYMPTOM,
        holds=_is_shortage,
        near_miss="Creating a new placement group. specs=[{'GPU': 1.0}]",
    ),
    Signature(
        id="ray-node-without-gpu",
        pattern=(
            r"Current node has no GPU available\b"
            r"|You don't have enough GPUs available in a current node"
        ),
        cause=(
            "Ray has no free GPU on the host where vLLM starts: another engine holds it, or Ray "
            "was started there without one."
        ),
        fix=(
            "Stop what holds the GPU (`{task:cluster.status}` lists it), check `nvidia-smi` inside "
            "the container, and start the cluster again: `{task:cluster.up}`."
        ),
        source="vllm-project/vllm#17980; vllm-project/vllm#29265",
        leads_to=("engine-start-failed",),
        sample=(
            "ValueError: Current node has no GPU available. current_node_resource={'CPU': 8.0}. "
            "vLLM engine cannot start without GPU."
        ),
        near_miss="current_node_resource={'GPU': 1.0, 'CPU': 20.0}",
    ),
    Signature(
        id="ray-tp-exceeds-head",
        pattern=r"Tensor parallel size \((?P<tp>\d+)\) exceeds available GPUs \((?P<have>\d+)\)",
        cause="The head alone has {have} GPU for TP={tp}: harmless if Ray has the others.",
        fix="Check that `ray status` on the head shows {tp} GPUs.",
        source="NVIDIA/dgx-spark-playbooks#63",
        role=FailureRole.WARNING,
        near_miss="Tensor parallel size (2) equals available GPUs (2)",
    ),
    Signature(
        id="ray-single-node",
        pattern=r"^Active:\n 1 node_\w+\n(?! 1 node_)(?:.{0,2000}\n){1,30}? *[\d.]+/\d+\.0 GPU",
        cause="Ray has one node: enough for one Spark, too few for --tp 2.",
        fix="Check the worker's Ray log; each Spark must be a line below Active.",
        source="NVIDIA/dgx-spark-playbooks#63; TechPreacher/dgx-spark-vllm-cluster glm/README.md",
        role=FailureRole.WARNING,
        near_miss="Active:\n 1 node_a\n 1 node_b\n0.0/2.0 GPU",
    ),
    Signature(
        id="duplicate-host-ip",
        pattern=r"Every node should have a unique IP",
        cause="Two hosts have the same VLLM_HOST_IP.",
        fix="Set VLLM_HOST_IP per host, not for the group; `{task:cluster.up}` does this.",
        source="vllm-project/vllm PR#43095; ray-project/ray#63917",
        near_miss="Every node has a unique IP address.",
    ),
    Signature(
        id="ray-not-installed",
        pattern=(
            r"\bray: (?:command )?not found|Please install Ray with `pip install ray`"
            r"|Ray is not installed\. Please install Ray"
            r"|Ray backend requires installation of ray|Ray Compiled Graph is not installed"
            r'|exec: \\?"ray\\?": executable file not found'
        ),
        cause="The image or environment has no Ray.",
        fix="Use an image with Ray, add ray to the recipe's engine_pip, or use the mp executor.",
        source="NVIDIA/dgx-spark-playbooks#109; NVIDIA/dgx-spark-playbooks#75",
        near_miss="xray: command not found",
    ),
    Signature(
        id="ray-version-mismatch",
        pattern=r"Version mismatch: The cluster was started with",
        cause="The hosts run different versions of Ray or Python.",
        fix="Run one image, pinned by digest, on every host.",
        source="gpustack/gpustack#2691",
        near_miss="The cluster was started with Ray 2.55.0, as this process was",
    ),
    Signature(
        id="ray-channel-timeout",
        pattern=r"RayChannelTimeoutError",
        cause="Ray's compiled graph timed out between the ranks.",
        fix="Use the mp executor; with Ray, check the other rank's log first.",
        source="itfwonjulee/fullmesh-spark-vllm-docker README",
        role=FailureRole.SYMPTOM,
        near_miss="Compiled graph: RAY_CGRAPH_get_timeout is set to 300",
    ),
    Signature(
        id="ray-head-unreachable",
        pattern=(
            r"Failed to connect to GCS\b|Unable to connect to GCS at"
            r"|Couldn't reconnect to GCS server|Failed to send request to gcs\b"
            r"|Timed out while waiting for GCS to become available"
            r"|GetTimeoutError: Failed to publish after retries: failed to connect to all addr"
        ),
        cause="Ray's head does not answer: it is down, or its port is blocked.",
        fix="Check the head's Ray log, then run `{task:links.verify}` for ray_port.",
        source="vllm-project/vllm#15385; ray-project/ray#23611; ray-project/ray#22326",
        role=FailureRole.SYMPTOM,
        near_miss="Connected to GCS at 192.168.100.10:6379",
    ),
    Signature(
        id="ray-not-running",
        pattern=r"Could not find any running Ray instance",
        cause="No Ray runs on this host: it was not started before vLLM, or it has ended.",
        fix="Read Ray's log on this host; `{task:cluster.up}` starts Ray before vLLM.",
        source="ray-project/ray#10466; ray-project/ray#8089; datajuicer/data-juicer#807",
        role=FailureRole.SYMPTOM,
        sample="ConnectionError: Could not find any running Ray instance.",
        near_miss="Found multiple active Ray instances: {'10.0.0.1:6379'}.",
    ),
    Signature(
        id="ray-node-marked-dead",
        pattern=(
            r"has been marked dead because the (?:detector|monitor) has missed too many heartbeats"
            r"|mistakenly been marked (?:as )?dead|GCS failed to check the health of this node"
        ),
        cause=(
            "Ray's head got no answer from a worker's raylet: a firewall blocks the health checks "
            "from head to worker, or the worker had no memory or CPU left."
        ),
        fix=(
            "Allow all ports between the fabric addresses of the hosts (`sudo ufw allow in on "
            "<interface>`), then run `{task:links.verify}`; check the worker's memory."
        ),
        source="ray-project/ray#46548; ray-project/ray#45179; ray-project/ray#54035",
        leads_to=("ray-head-unreachable", "ray-missing-gpus", "ray-rank-died"),
        sample="Exiting because this node manager has mistakenly been marked as dead by the GCS",
        near_miss="Last heartbeat was sent 6901 ms ago.",
    ),
    Signature(
        id="ray-rank-died",
        pattern=r"RayWorkerProc rank=\[(?P<rank>[\d, ]+)\] died unexpectedly",
        cause="The process or the host of rank {rank} died.",
        fix="Check that this rank's host is up, and its kernel log for an OOM kill.",
        source="recorded by this project with vLLM 0.32 on two emulated hosts",
        role=FailureRole.SYMPTOM,
        near_miss="RayWorkerProc rank=[1] started",
    ),
    Signature(
        id="ray-cleanup-failed",
        pattern=r"ActorHandleNotFoundError|Failed to kill actor rank=",
        cause="Ray's clean-up after the failure failed as well.",
        fix="Check the first error before it, on every host.",
        source="recorded by this project with vLLM 0.32 on two emulated hosts",
        role=FailureRole.CONSEQUENCE,
        near_miss="Killed actor rank=1",
    ),
    Signature(
        id="ray-exception-unreadable",
        pattern=r"Failed to unpickle serialized exception",
        cause=(
            "Ray could not bring the exception of a worker to this log, so that the reason is only "
            "in the worker's own."
        ),
        fix="Read the log of every host: `{task:cluster.logs}`.",
        source="verl-project/verl#2277; RUC-NLPIR/Tool-Star#11",
        role=FailureRole.SYMPTOM,
        sample="RuntimeError: Failed to unpickle serialized exception",
        near_miss="Serialized exception was sent",
    ),
    Signature(
        id="ray-driver-without-gpu",
        pattern=r"Ray does not allocate any GPUs on the driver node",
        cause="vLLM was started on a host whose GPU Ray does not have, or under another address.",
        fix=(
            "Start vLLM on a host of the cluster, with VLLM_HOST_IP equal to that host's `ray "
            "start --node-ip-address`; `{task:cluster.up}` does this."
        ),
        source="vllm-project/vllm#6956; vllm-project/vllm#2406",
        sample="ValueError: Ray does not allocate any GPUs on the driver node.",
        near_miss="Ray allocates 1 GPU on the driver node",
    ),
    Signature(
        id="ray-worker-killed",
        pattern=r"Worker exit type: SYSTEM_ERROR",
        cause="A worker of Ray was killed or crashed; this log does not have its last words.",
        fix=(
            "Look for the OOM killer with `sudo dmesg` on that host, and read the worker's log in "
            "/tmp/ray/session_latest/logs."
        ),
        source="vllm-project/vllm#1894; gpustack/gpustack#2415",
        role=FailureRole.SYMPTOM,
        sample="Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits",
        near_miss="Worker exit type: INTENDED_USER_EXIT",
    ),
    Signature(
        id="ray-address-without-raylet",
        pattern=(
            r"This node has an IP address of (?P<ip>\S{2,60}?),? (?:but we cannot find a local"
            r"|while we can not find the matched|and Ray expects this IP address to be either)"
        ),
        cause="Ray has no node at {ip}, the address that this process takes for its own.",
        fix=(
            "If the node does not appear in `ray status` soon after, start Ray on this host with "
            "--node-ip-address and VLLM_HOST_IP set to one address of the fabric: "
            "`{task:cluster.up}` does this."
        ),
        source="ray-project/ray#31264; ray-project/kuberay#1063",
        role=FailureRole.WARNING,
        sample=(
            "This node has an IP address of 10.6.0.55, but we cannot find a local Raylet with the "
            "same address."
        ),
        near_miss="Local node IP: 10.6.0.55",
    ),
    Signature(
        id="ray-object-lost",
        pattern=r"\b(?:OwnerDiedError|ObjectLostError|ObjectFetchTimedOut\w*): (?P<what>.{1,200})",
        cause="The process or the host that held a result of Ray went away: {what}",
        fix="Find the host in `ray status` and read its log: `{task:cluster.logs}`.",
        source="ray-project/ray#40731; ray-project/ray#14580",
        role=FailureRole.SYMPTOM,
        sample="ray.exceptions.ObjectLostError: Object 4d is lost due to node failure.",
        near_miss="Attempting to recover 1 lost objects by resubmitting their tasks.",
    ),
)
