"""Failures of Ray, of the mp executor and between the engine's processes."""

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
        pattern=rf"{_WAITS}.{{0,2000}}'node:(?P<ip>[^']+)'",
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
            rf"{_WAITS}(?:.{{0,2000}}'node:(?P<ip>[^']+)')?"
            r"|number of required GPUs exceeds the total number of available GPUs"
            r"|Total available GPUs [\d.]{1,8} is less than total desired GPUs"
            r"|Placement group creation timed out"
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
        id="world-size-without-executor",
        pattern=(
            r"World size \((?P<tp>\d+)\) is larger than the number of available GPUs \("
            r"|local_world_size \((?P<local>\d+)\) must be less than or equal to the number of"
            r"|ensure that world_size \((?P<size>\d+)\) is less than"
            r"|Tensor parallel size \(\d+\) cannot be larger than the number of available GPUs"
            r"|\) exceeds assigned_physical_gpu_ids count \("
            r"|local rank \d{1,5} is out of bounds for \d{1,3} devices"
        ),
        cause=(
            "vLLM was asked for more GPUs than this host has, without an executor that spans hosts."
        ),
        fix=(
            "Start it with `--distributed-executor-backend ray` on a Ray cluster, or with mp and "
            "`--nnodes`; `{task:cluster.up} --tp N` renders it."
        ),
        source="vLLM's own message; vllm-project/vllm PR#28873; vllm-project/vllm#15217",
        near_miss="World size (2) is supported by the Ray executor",
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
        id="rank-unresponsive",
        pattern=r"RPC call to (?P<call>\w{1,60}) timed out",
        cause="A rank stopped answering ({call} timed out): its host hangs or has no memory left.",
        fix=(
            "Find the host whose log ends first, and check its kernel log and free memory; lower "
            "gpu-memory-utilization in vllm_args for more room."
        ),
        source=(
            "eugr/spark-vllm-docker#321; vllm-project/vllm#46611; vllm-project/vllm#37250; "
            "vllm-project/vllm#48752"
        ),
        role=FailureRole.SYMPTOM,
        leads_to=("shared-memory-wait",),
        sample="TimeoutError: RPC call to sample_tokens timed out.",
        near_miss="RPC call to sample_tokens took 2 s",
    ),
    Signature(
        id="ray-already-running",
        pattern=r"Ray is trying to start at (?P<here>\S+), but is already running at",
        cause="Another Ray is already running at {here}.",
        fix="Stop it with `ray stop` on that host, or give the cluster another ray_port.",
        source="Ray's own message",
        near_miss="Ray is trying to start at 192.168.100.10:6379.",
    ),
    Signature(
        id="port-in-use",
        pattern=(
            r"(?:(?<!bind socket \()[Aa]ddress already in use|EADDRINUSE)(?!\. Retrying)"
            r"|port is already allocated|because it's already occupied"
        ),
        cause="A port that the engine needs is in use.",
        fix="Find the process with `ss -tlnp` and stop it, or change vllm_port or ray_port.",
        source="vllm-project/vllm#7514; ray-project/ray#14098",
        near_miss="Port 8000 is in use by this server. Address already in use. Retrying in 1 s",
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
        id="mp-worker-died",
        pattern=(
            r"Worker (?:proc )?(?P<name>\S+)(?: pid \d{1,9})? died"
            r"(?: unexpectedly)?(?:,? ?\(?exit code: (?P<code>[^).\s]{1,12})|, shutting down)"
        ),
        cause="{name} died (exit code: {code}); -9 is a kill, usually by the OOM killer.",
        fix="Check the lines before it, and that host's kernel log for an OOM kill.",
        source=(
            "OpenPipe/ART#201; vllm-project/vllm#15295; "
            "tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark#31"
        ),
        role=FailureRole.SYMPTOM,
        near_miss="Worker proc VllmWorker-1 is ready",
    ),
    Signature(
        id="shared-memory-wait",
        pattern=r"No available shared memory broadcast block found in (?P<s>\d+) seconds?",
        cause="A rank waited {s} s for another, which is compiling (harmless) or dead.",
        fix="Check the other ranks' logs.",
        source="eugr/spark-vllm-docker#150; eugr/spark-vllm-docker#348",
        role=FailureRole.WARNING,
        near_miss="shared memory broadcast block found after 60 seconds",
    ),
    Signature(
        id="container-unhealthy",
        pattern=r"\(unhealthy\)",
        cause="The container's own health check fails; a worker has no /health endpoint.",
        fix="Use `{task:cluster.status}`, which checks the processes.",
        source="ntxf31415/deepseek-v4-vision-exp-dgxspark-tp4-switchless-ring docs/pitfalls.md",
        role=FailureRole.WARNING,
        recorded=False,
        near_miss="Up 3 hours (healthy)",
    ),
    Signature(
        id="engine-dead",
        pattern=r"EngineDeadError|EngineCore encountered an? (?:issue|fatal error)",
        cause="The engine is dead; this line does not say why.",
        fix="Check the first error before it, on every host.",
        source="recorded by this project with vLLM 0.32 on two emulated hosts",
        role=FailureRole.CONSEQUENCE,
        near_miss="EngineCore encountered no errors",
    ),
    Signature(
        id="engine-start-failed",
        pattern=(
            r"Engine core initialization failed\.|EngineCore failed to start\."
            r"|WorkerProc initialization failed due to an exception"
            r"|Frontend process failed during engine core initialization"
            r"|Engine process failed to start"
            r"|Ray workers have not started successfully|: Worker \d{1,4} failed to initialize: "
        ),
        cause="The engine did not start; this line does not say why.",
        fix="Check the first error before it, on every host.",
        source="recorded by this project with vLLM 0.32 on two emulated hosts",
        role=FailureRole.CONSEQUENCE,
        near_miss="Engine core initialization finished.",
    ),
    Signature(
        id="engine-ready-timeout",
        pattern=(
            r"Timed out waiting for (?:engine core processes to start"
            r"|engines to send initial message on input socket)"
        ),
        cause="The engine took longer to load and to warm up than vLLM waits: 600 s by default.",
        fix=(
            "Set VLLM_ENGINE_READY_TIMEOUT_S: 3600 in vllm_env. What makes a start slow: weights "
            "on a network filesystem, kernels that are compiled again, memory that swaps."
        ),
        source="vllm-project/vllm PR#35616; vllm-project/vllm#35547",
        leads_to=("engine-start-failed",),
        sample=(
            "TimeoutError: Timed out waiting for engines to send initial message on input socket."
        ),
        near_miss="Waiting for 1 local, 0 remote core engine proc(s) to start.",
    ),
    Signature(
        id="executor-failed",
        pattern=r"RuntimeError: Executor failed\.|The actor died (?:unexpectedly|because)",
        cause="A worker process exited, which stopped the executor.",
        fix="Check the first error before it, on every host.",
        source="recorded by this project with vLLM 0.32 on two emulated hosts",
        role=FailureRole.CONSEQUENCE,
        near_miss="Executor finished; the actor exited",
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
        id="ray-node-start-timeout",
        pattern=(
            r"current node timed out during startup|GCS cannot find the node with node ID"
            r"|while waiting for node to startup"
        ),
        cause="Ray on this host did not register with the head in time.",
        fix=(
            "Read raylet.out and raylet.err in /tmp/ray/session_latest/logs on that host; "
            "`{task:links.verify}` tests the way to the head's ray_port."
        ),
        source="ray-project/ray#62883; gpustack/gpustack#5181",
        role=FailureRole.SYMPTOM,
        sample=(
            "Exception: The current node timed out during startup. This could happen "
            "because some of the raylet failed to startup or the GCS has become "
            "overloaded."
        ),
        near_miss="Waiting for node to startup",
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
        id="cuda-in-forked-process",
        pattern=r"Cannot re-initialize CUDA in forked subprocess",
        cause="CUDA was used before the engine forked its workers.",
        fix="Set VLLM_WORKER_MULTIPROC_METHOD: spawn in vllm_env.",
        source="vllm-project/vllm#7151; lm-sys/FastChat#3507",
        sample=(
            "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA "
            "with multiprocessing, you must use the 'spawn' start method"
        ),
        near_miss="Using the spawn start method for multiprocessing",
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
)
