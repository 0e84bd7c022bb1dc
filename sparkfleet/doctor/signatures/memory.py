"""Failures for lack of unified memory, which GPU, CPU and page cache share."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

_DROP = "`sudo sh -c 'sync; echo 3 > /proc/sys/vm/drop_caches'` on that host"
_FILES = "Raise it: `--ulimit nofile=1048576` for a container, else `ulimit -n 1048576`."

ROWS = (
    Signature(
        id="memory-guard",
        pattern=r"memory guard: (?P<seen>.+ GiB) available, below .+ GiB while (?P<phase>\w+)",
        cause="The memory guard stopped the ranks: {seen} were available while {phase}.",
        fix=(
            "Lower gpu-memory-utilization or max-model-len in vllm_args, or stop other processes "
            "on that host; guard_loading and guard_serving set the limits."
        ),
        source="docs/memory.md; TechPreacher/dgx-spark-vllm-cluster glm/README.md",
    ),
    Signature(
        id="ray-memory-monitor",
        pattern=(
            r"killed due to (?:the node running low on memory|memory pressure \(OOM\))"
            r"|RayOutOfMemoryError"
        ),
        cause="Ray's memory monitor killed a worker that was loading.",
        fix="Set RAY_memory_monitor_refresh_ms=0 before `ray start`, as `{task:cluster.up}` does.",
        source="MiaAI-Lab/GLM-5.3-Flash-NVFP4-Dual-DGX-Spark PR#2",
    ),
    Signature(
        id="nv-no-memory",
        pattern=r"NV_ERR_NO_MEMORY",
        cause="The driver found no free memory: MemFree was exhausted.",
        fix=f"Run {_DROP}, and lower gpu-memory-utilization in vllm_args.",
        source="NVIDIA/open-gpu-kernel-modules#1358; vllm-project/vllm#46307",
        recorded=False,
    ),
    Signature(
        id="gpu-memory-utilization-too-high",
        pattern=(
            r"Free memory on device.*\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on startup "
            r"is less than (?:desired GPU memory utilization|the engine's budget)"
        ),
        cause="{free} GiB of {total} are free, less than gpu-memory-utilization asks for.",
        fix=(
            "Lower gpu-memory-utilization in vllm_args (`{task:recipes.fit}` shows the highest "
            f"that fits), close the desktop session, or run {_DROP}."
        ),
        source="MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#47; vllm-project/vllm#48140",
    ),
    Signature(
        id="kv-cache-no-memory",
        pattern=r"No available memory for the cache blocks|Available KV cache memory: -",
        cause="Nothing is left for the KV cache: the page cache counts as used memory.",
        fix=f"Run {_DROP}, or set kv-cache-memory-bytes in vllm_args.",
        source="NVIDIA/xr-ai PR#462",
    ),
    Signature(
        id="kv-cache-too-small",
        pattern=r"To serve at least one request with the models?(?:'s)? max seq len",
        cause="The KV cache does not hold one request of the full context.",
        fix="Lower max-model-len in vllm_args, or raise gpu-memory-utilization.",
        source="vLLM's own message",
    ),
    Signature(
        id="cuda-out-of-memory",
        pattern=r"CUDA out of memory|CUDA error: out of memory|torch(?:\.cuda)?\.OutOfMemoryError",
        cause="The GPU's share of unified memory is exhausted.",
        fix="Set gpu-memory-utilization to 0.7 to 0.85 and lower max-model-len in vllm_args.",
        source="vllm-project/recipes#632",
    ),
    Signature(
        id="earlyoom-killed",
        pattern=r"\bearlyoom\b.*\bSIG(?:TERM|KILL)|\bdgx-anti-oom\b",
        cause="A user-space OOM killer stopped the engine.",
        fix="Lower gpu-memory-utilization in vllm_args, or adjust the killer's thresholds.",
        source=(
            "tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark#31; "
            "Blackwellboy/model-serving-minefield PR#134"
        ),
        recorded=False,
    ),
    Signature(
        id="exit-137",
        pattern=r"(?i)\bexit(?:ed)?\b.{0,20}\b137\b",
        cause="The process was killed: too many compile jobs, or too little memory.",
        fix="Set MAX_JOBS low in vllm_env, or lower gpu-memory-utilization in vllm_args.",
        source="flashinfer-ai/flashinfer#3634; eugr/spark-vllm-docker#52",
        role=FailureRole.SYMPTOM,
        recorded=False,
    ),
    Signature(
        id="too-many-open-files",
        pattern=r"(?<!`)OSError: \[Errno 24\] Too many open files",
        cause="The process has reached its limit of open files.",
        fix=_FILES,
        source="eugr/spark-vllm-docker README",
    ),
    Signature(
        id="open-file-limit-low",
        pattern=r"Found ulimit of (?P<limit>\d+) and failed to automatically increase",
        cause="At most {limit} files can be open.",
        fix=_FILES,
        source="vLLM's own message; eugr/spark-vllm-docker README",
        role=FailureRole.WARNING,
    ),
)
