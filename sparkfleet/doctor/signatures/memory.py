"""Failures for lack of memory: one pool for GPU, CPU and page cache."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

_DROP = "`sudo sh -c 'sync; echo 3 > /proc/sys/vm/drop_caches'` on that host"
_FILES = "Raise it: `--ulimit nofile=1048576` for a container, else `ulimit -n 1048576`."

ROWS = (
    Signature(
        id="guard",
        pattern=r"memory guard: (?P<seen>.+ GiB) available, below .+ GiB while (?P<phase>\w+)",
        cause="The memory guard ended the ranks: {seen} were available while {phase}.",
        fix=(
            "Lower gpu-memory-utilization or max-model-len in vllm_args, or end what else runs "
            "there; guard_loading and guard_serving are the limits."
        ),
        source="docs/memory.md; facts/dgx-spark.md failure 75",
    ),
    Signature(
        id="F23",
        pattern=(
            r"killed due to (?:the node running low on memory|memory pressure \(OOM\))"
            r"|RayOutOfMemoryError"
        ),
        cause="Ray's memory monitor killed a worker that was loading.",
        fix="Set RAY_memory_monitor_refresh_ms=0 before `ray start`; `invoke cluster.up` does.",
        source="facts/dgx-spark.md failure 23 and section 2.2",
    ),
    Signature(
        id="F25",
        pattern=r"NV_ERR_NO_MEMORY",
        cause="The driver found no free memory: MemFree was used up.",
        fix=f"Run {_DROP}, and lower gpu-memory-utilization in vllm_args.",
        source="facts/dgx-spark.md failure 25; case C46",
        recorded=False,
    ),
    Signature(
        id="F27",
        pattern=(
            r"Free memory on device.*\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on startup "
            r"is less than (?:desired GPU memory utilization|the engine's budget)"
        ),
        cause="{free} GiB of {total} are free, less than gpu-memory-utilization asks for.",
        fix=(
            "Lower gpu-memory-utilization in vllm_args (`invoke recipes.fit` tells the highest "
            f"that fits), close the desktop, or run {_DROP}."
        ),
        source="facts/dgx-spark.md failure 27; cases C44 and C45",
    ),
    Signature(
        id="F30",
        pattern=r"No available memory for the cache blocks|Available KV cache memory: -",
        cause="Nothing is left for the KV cache: the page cache counts as used memory.",
        fix=f"Run {_DROP}, or set kv-cache-memory-bytes in vllm_args.",
        source="facts/dgx-spark.md failure 30; seed 5 section 11",
    ),
    Signature(
        id="V-kv",
        pattern=r"To serve at least one request with the models?(?:'s)? max seq len",
        cause="The KV cache does not hold one request of the full context.",
        fix="Lower max-model-len in vllm_args, or raise gpu-memory-utilization.",
        source="vLLM's own message; seed 5 section 11",
    ),
    Signature(
        id="F28",
        pattern=r"CUDA out of memory|CUDA error: out of memory|torch(?:\.cuda)?\.OutOfMemoryError",
        cause="The GPU's share of the one memory pool is used up.",
        fix="Set gpu-memory-utilization to 0.7 to 0.85 and lower max-model-len in vllm_args.",
        source="facts/dgx-spark.md failure 28; seed 5 section 11",
    ),
    Signature(
        id="F31",
        pattern=r"\bearlyoom\b.*\bSIG(?:TERM|KILL)|\bdgx-anti-oom\b",
        cause="A user-space memory killer ended the engine.",
        fix="Lower gpu-memory-utilization in vllm_args, or adjust the killer's thresholds.",
        source="facts/dgx-spark.md failure 31",
        recorded=False,
    ),
    Signature(
        id="F32",
        pattern=r"(?i)\bexit(?:ed)?\b.{0,20}\b137\b",
        cause="The process was killed: too many compile jobs, or too little memory.",
        fix="Set MAX_JOBS low in vllm_env, or lower gpu-memory-utilization in vllm_args.",
        source="facts/dgx-spark.md failure 32",
        role=FailureRole.SYMPTOM,
        recorded=False,
    ),
    Signature(
        id="F33",
        pattern=r"(?<!`)OSError: \[Errno 24\] Too many open files",
        cause="The process may not open more files.",
        fix=_FILES,
        source="facts/dgx-spark.md failure 33",
    ),
    Signature(
        id="F33-limit",
        pattern=r"Found ulimit of (?P<limit>\d+) and failed to automatically increase",
        cause="At most {limit} files can be open.",
        fix=_FILES,
        source="facts/dgx-spark.md failure 33; lab.md",
        role=FailureRole.WARNING,
    ),
)
