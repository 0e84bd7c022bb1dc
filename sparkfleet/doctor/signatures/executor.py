"""Failures of the executors and of the engine's processes."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

ROWS = (
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
        id="mp-worker-died",
        pattern=(
            r"Worker (?:proc )?(?P<name>\S+)(?: pid \d{1,9})? died"
            r"(?: unexpectedly)?(?:,? ?\(?exit code: (?P<code>(?!(?:1|-15)\b)[^).\s]{1,12})"
            r"|, shutting down)"
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
        id="mp-worker-stopped",
        pattern=(
            r"Worker (?:proc )?(?P<name>\S+)(?: pid \d{1,9})? died"
            r"(?: unexpectedly)?,? ?\(?exit code: (?P<code>1|-15)\b"
        ),
        cause=(
            "{name} ended (exit code: {code}) after an exception of its own (1) or since the "
            "engine stopped it (-15)."
        ),
        fix="Check the first error before it, on every host.",
        source="vllm-project/vllm#8745; vllm-project/vllm#7474; vllm-project/vllm#13258",
        role=FailureRole.CONSEQUENCE,
        sample="Worker VllmWorkerProcess pid 138 died, exit code: -15",
        near_miss="Worker VllmWorkerProcess pid 138 died, exit code: -11",
    ),
    Signature(
        id="front-end-gave-up",
        pattern=r"ZMQError: Operation not supported",
        cause="The API server closed its sockets, since the engine failed or took too long.",
        fix="Check the first error of the engine; VLLM_RPC_TIMEOUT in vllm_env is in milliseconds.",
        source="vllm-project/vllm#10856; vllm-project/vllm#11232; vllm-project/vllm#12179",
        role=FailureRole.CONSEQUENCE,
        sample="zmq.error.ZMQError: Operation not supported",
        near_miss="zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:5570')",
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
        pattern=(
            r"EngineDeadError|EngineCore encountered an? (?:issue|fatal error)"
            r"|Engine process \(pid \d{1,9}\) died|\bMQLLMEngine is already dead"
            r"|RuntimeError: Engine loop has died|No heartbeat received from MQLLMEngine"
        ),
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
            r"|\bRank \d{1,4} scheduler (?:is dead|died)\b"
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
        id="follower-serves",
        pattern=r"collective_rpc should not be called on follower node",
        cause=(
            "A host other than the first runs an engine of its own, although it has only to follow "
            "(--node-rank above 0): it was started without --headless, or by `python -m "
            "vllm.entrypoints.openai.api_server`, which ignores it."
        ),
        fix="Start it with `vllm serve --headless`, as `{task:cluster.up}` does.",
        source="vllm-project/vllm PR#36875; pasta-paul/dsv4-flash-w4a16-fp8",
        leads_to=("engine-start-failed",),
        sample="AssertionError: collective_rpc should not be called on follower node",
        near_miss="Launching vLLM headless multiproc executor, with head node 10.0.0.1:29501",
    ),
    Signature(
        id="listen-address-not-here",
        pattern=(
            r"\[Errno 99\] (?:error while attempting to bind on address "
            r"\('(?P<address>[^'\n]{1,60})'.{0,30}: )?(?i:cannot assign requested address)"
        ),
        cause=(
            "A server is configured to listen on an address that this host does not have: "
            "{address}. `localhost` becomes ::1 where /etc/hosts says so, although IPv6 is off."
        ),
        fix=(
            "Set vllm_host (of another server its own option) to 127.0.0.1, 0.0.0.0 or an address "
            "of this host (`ip -br addr`)."
        ),
        source="ray-project/ray#7084; vllm-project/vllm PR#1288; BerriAI/litellm#5014",
        leads_to=("engine-start-failed",),
        sample=(
            "ERROR:    [Errno 99] error while attempting to bind on address ('::1', 8000, 0, 0): "
            "cannot assign requested address"
        ),
        near_miss=(
            "[Errno 98] error while attempting to bind on address ('0.0.0.0', 8265): address "
            "already in use"
        ),
    ),
)
