"""Failures of Ray's own processes on a host: raylet, agents, sockets and object store."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

ROWS = (
    Signature(
        id="ray-already-running",
        pattern=r"Ray is trying to start at (?P<here>\S+), but is already running at",
        cause="Another Ray is already running at {here}.",
        fix="Stop it with `ray stop` on that host, or give the cluster another ray_port.",
        source="Ray's own message",
        near_miss="Ray is trying to start at 192.168.100.10:6379.",
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
        id="ray-raylet-died",
        pattern=(
            r"Raylet is terminated[.:].{0,200}Termination is unexpected"
            r"|The raylet exited immediately because (?:the|one) Ray agent failed"
            r"|\((?:raylet|gcs_server)\S{0,4}\) logging\.cc:\d{1,5}: (?:Unhandled ex|\*{3} SIG)"
            r"|\bfrom raylet because it is dead|Failed to start GCS\b"
            r"|Could not connect to socket \S{1,300}/sockets/raylet"
            r"|Unable to register worker with raylet"
            r"|Connection to IPC socket failed for pathname \S{1,300}/plasma_store"
            r"|Ray processes died unexpectedly|Some Ray subprocesses exited unexpectedly"
        ),
        cause="One of Ray's own processes on this host, such as the raylet, crashed or was killed.",
        fix=(
            "Look for the OOM killer with `sudo dmesg` on that host, then read the log that this "
            "line names, or raylet.out, in /tmp/ray/session_latest/logs."
        ),
        source="ray-project/ray#29412; ray-project/ray#31119; ray-project/ray#6368",
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
    Signature(
        id="ray-redis",
        pattern=(
            r"Couldn't start Redis\b|RedisError: Could not establish connection to Redis"
            r"|Failed to connect to Redis\b"
        ),
        cause="Ray's head cannot reach Redis, where it keeps its state.",
        fix=(
            "Unset RAY_REDIS_ADDRESS, which a Spark cluster does not need, and read redis.err in "
            "/tmp/ray/session_latest/logs; old versions of Ray start a Redis of their own: use a "
            "newer Ray."
        ),
        source="ray-project/ray PR#33842; ray-project/ray#13787",
        leads_to=("ray-head-unreachable", "ray-node-start-timeout", "ray-raylet-died"),
        sample="RuntimeError: Couldn't start Redis. Check log files: /tmp/ray/s/logs/redis.out",
        near_miss="Connected to Redis at localhost:6379",
    ),
    Signature(
        id="ray-socket-path-too-long",
        pattern=(
            r"AF_UNIX path length cannot exceed \d{1,4} bytes: '?(?P<path>[^'\n]{1,300})"
            r"|boost::system::system_error>{1,3}: File name too long"
        ),
        cause="Ray's temporary folder has too long a path for its sockets: {path}.",
        fix=(
            "Unset TMPDIR and RAY_TMPDIR in the container, so that Ray uses /tmp/ray, or give `ray "
            "start` a short --temp-dir."
        ),
        source="verl-project/verl#1120; aertslab/pycisTopic#93; ray-project/ray PR#7951",
        leads_to=("ray-node-start-timeout",),
        sample=(
            "OSError: AF_UNIX path length cannot exceed 107 bytes: '/net/people/x/slurm_jobdir/"
            "1355700/tmp.t0016/ray/session_2025-04-16/sockets/plasma_store'"
        ),
        near_miss="OSError: AF_UNIX path /tmp/ray/session_2025-04-16/sockets/raylet is in use",
    ),
    Signature(
        id="ray-agent-slow",
        pattern=(
            r"Timed out waiting for file\s{1,3}\S{0,200}/(?P<agent>metrics_agent|metrics_export"
            r"|dashboard_agent\w{0,12}|runtime_env_agent)_port"
        ),
        cause=(
            "Ray gave up on this host, since one of its own agents ({agent}) had not started "
            "within 15 s: the host or the container is too slow then, or the agent crashed."
        ),
        fix=(
            "Read dashboard_agent.log and runtime_env_agent.log in /tmp/ray/session_latest/logs; "
            "start Ray before what loads the host, and keep Python's start short (.pth files)."
        ),
        source="ray-project/ray#62883; ray-project/ray#65983",
        leads_to=("ray-node-start-timeout", "ray-raylet-died"),
        sample=(
            "Check failed: statussetor3370.has_value() Timed out waiting for file /tmp/ray/session"
            "_2026-04-23_10-27-54_024445_26588/metrics_export_port_bef558ddb18207f7e6349f91"
        ),
        near_miss="Timed out waiting for file /tmp/ray/session_latest/gcs_server_port",
    ),
    Signature(
        id="ray-port-in-use",
        pattern=(r"No address added out of total \d{1,3} resolved for '(?P<address>[^'\n]{1,80})'"),
        cause="A process of Ray cannot listen on {address}: another one has that port.",
        fix=(
            "Stop what is left of an earlier Ray (`{task:cluster.down}`, then `ray stop --force`); "
            "two clusters on a host need other --min-worker-port and --max-worker-port."
        ),
        source="ray-project/ray#39383; facebookresearch/fairchem PR#1787",
        leads_to=("ray-raylet-died", "ray-worker-killed"),
        sample="UNKNOWN:No address added out of total 1 resolved for '0.0.0.0:10014'",
        near_miss="Resolved 1 address for '0.0.0.0:10014'",
    ),
)
