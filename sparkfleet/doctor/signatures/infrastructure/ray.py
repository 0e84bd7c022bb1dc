"""Failures of Ray's own processes: ports, shared memory, the raylet and its workers."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

ROWS = (
    Signature(
        id="ray-port-conflict",
        pattern=(
            r"Ray component (?P<part>\w{1,40}) is trying to use a port number (?P<port>\d{1,5}) "
            r"that is used by other components"
        ),
        cause="Two parts of Ray on this host got port {port}: {part} and another one.",
        fix=(
            "Start the cluster again: Ray chooses most ports at random. If it comes back, keep "
            "ports that you set for Ray out of 10002 to 19999, the range of its workers."
        ),
        source="ray-project/ray#45484; ray-project/kuberay#149",
        sample=(
            "ValueError: Ray component metrics_export is trying to use a port number 60096 that is "
            "used by other components."
        ),
        near_miss="Port information: {'gcs': 'random', 'metrics_export': 60096}",
    ),
    Signature(
        id="ray-object-store-above-shm",
        pattern=(
            r"configured object store size \((?P<asked>[\d.]{1,20} GB)\) exceeds /dev/shm size "
            r"\((?P<most>[\d.]{1,20} GB)\)"
        ),
        cause="Ray's object store ({asked}) does not fit into /dev/shm ({most}).",
        fix=(
            "Start the container with `--ipc=host` or a larger `--shm-size` (`{task:cluster.up}` "
            "does this), or give `ray start` a smaller --object-store-memory."
        ),
        source="alumae/kiirkirjutaja#5; ray-project/ray PR#23034",
        sample=(
            "ValueError: The configured object store size (11.8 GB) exceeds /dev/shm size (8.0 GB)."
        ),
        near_miss="Starting the object store with 8.0 GB memory using /dev/shm.",
    ),
    Signature(
        id="ray-object-store-on-disk",
        pattern=(
            r"The object store is using /tmp instead of /dev/shm because /dev/shm has only "
            r"(?P<bytes>\d{1,15}) bytes"
        ),
        cause="Ray keeps its objects on disk, which is slower, since /dev/shm has {bytes} bytes.",
        fix="Start the container with `--ipc=host` or a larger `--shm-size`.",
        source="ray-project/ray#3223; InftyAI/llmaz#238",
        role=FailureRole.WARNING,
        sample=(
            "WARNING: The object store is using /tmp instead of /dev/shm because /dev/shm has only "
            "67108864 bytes available."
        ),
        near_miss="The object store is using /dev/shm",
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
        id="ray-raylet-died",
        pattern=r"Raylet is terminated[.:].{0,200}Termination is unexpected",
        cause="Ray's own process of this host, the raylet, was killed or crashed.",
        fix=(
            "Look for the OOM killer with `sudo dmesg` on that host, then read raylet.out in "
            "/tmp/ray/session_latest/logs."
        ),
        source="ray-project/ray#29412; ray-project/ray#31119",
        role=FailureRole.SYMPTOM,
        leads_to=("ray-worker-killed", "ray-head-unreachable"),
        sample=(
            "Raylet is terminated. Termination is unexpected. Possible reasons include: (1) SIGKILL"
        ),
        near_miss="Raylet graceful shutdown triggered, reason = EXPECTED_TERMINATION",
    ),
    Signature(
        id="ray-workers-not-registered",
        pattern=r"Some workers of the worker process\(\d{1,9}\) have not (?:been )?regist",
        cause=(
            "Processes that Ray started on this host did not report in time: they crashed at once, "
            "or the host is too busy to start so many."
        ),
        fix=(
            "Read worker-*.err in /tmp/ray/session_latest/logs on that host, and give `ray start` "
            "a smaller --num-cpus."
        ),
        source="RLinf/RLinf#227; ray-project/ray#8890",
        role=FailureRole.SYMPTOM,
        sample=(
            "Some workers of the worker process(27991) have not registered within the timeout. The "
            "process is dead, probably it crashed during start."
        ),
        near_miss="worker_pool.cc:733: Job 01000000 already started in worker pool.",
    ),
)
