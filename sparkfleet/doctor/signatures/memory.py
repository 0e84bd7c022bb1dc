"""Failures for lack of unified memory, which GPU, CPU and page cache share."""

from __future__ import annotations

import re

from sparkfleet.doctor.patterns import compile_pattern
from sparkfleet.doctor.signatures.row import (
    Clues,
    FailureRole,
    Signature,
    find_first_end,
    has_match_between,
)

_DROP = "`sudo sh -c 'sync; echo 3 > /proc/sys/vm/drop_caches'` on that host"
_FILES = "Raise it: `--ulimit nofile=1048576` for a container, else `ulimit -n 1048576`."

_LOADING = (
    r"Starting to load model|Loading weights took|Model loading took"
    r"|oading .{0,80}:\s{1,8}\d{1,3}% Completed"
)
_INITIALIZING = "Initializing a V1 LLM engine"
_ASKS_CUDA = (
    r"mem_get_info|cudaMemGetInfo|_cuda_init\(|_cuda_setDevice|set_device\(|\binit_device\b"
)
_NO_MEMORY = r"CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation"
_TRACEBACK = 1500  # characters before an error
_ENDS_ITSELF = "Got fatal signal from worker processes, shutting down"


def _is_before_loading(match: re.Match[str], _clues: Clues) -> bool:
    """Return whether CUDA itself found no memory: in its own calls, or before the weights."""
    if not compile_pattern(_NO_MEMORY).match(match[0]):
        return False
    text = match.string
    start = match.start()
    if has_match_between(_ASKS_CUDA, text, max(0, start - _TRACEBACK), start):
        return True
    begun = find_first_end(_INITIALIZING, text) <= start
    return begun and not find_first_end(_LOADING, text) <= start


def _is_after_start(match: re.Match[str], clues: Clues) -> bool:
    return not _is_before_loading(match, clues)


def _is_killed_by_another(match: re.Match[str], _clues: Clues) -> bool:
    """Return False for a front end of vLLM that ends itself because a worker failed."""
    begin = max(0, match.start() - _TRACEBACK)
    return match[0] != "Killed" or match.string.find(_ENDS_ITSELF, begin, match.start()) < 0


ROWS = (
    Signature(
        id="host-memory-not-locked",
        pattern=(
            r"CUDA error: OS call failed or operation not supported on this OS"
            r"|cu(?:da)?(?:Mem)?HostAlloc failed: OS call failed|CUDA_ERROR_OPERATING_SYSTEM\b"
            r"|cudaErrorOperatingSystem\b"
        ),
        cause=(
            "The operating system refused a call of the CUDA driver, most often for page-locked "
            "(pinned) host memory: none was free, or the container's memlock limit is low."
        ),
        fix=(
            "Look at `free -h` and at NVRM lines of `sudo dmesg` on that host; stop other "
            "programs there, give the container `--ulimit memlock=-1`, and lower "
            "gpu-memory-utilization in vllm_args."
        ),
        source="vllm-project/vllm#43473; vllm-project/vllm#1054; NVIDIA/TensorRT#3989",
        role=FailureRole.SYMPTOM,
        sample="CUDA error: OS call failed or operation not supported on this OS",
        near_miss="CUDA error: operation not supported",
    ),
    Signature(
        id="profiling-memory-rose",
        pattern=r"Error in memory profiling\b",
        cause=(
            "Free memory rose while vLLM measured it: another process on this host ended, or the "
            "kernel returned page cache during the start."
        ),
        fix=(
            f"Start again when the host is quiet, run {_DROP} before, or set "
            "kv-cache-memory-bytes in vllm_args, which needs no measurement."
        ),
        source="vllm-project/vllm#35920; vllm-project/vllm#56830; modelscope/ms-swift#3241",
        sample=(
            "AssertionError: Error in memory profiling. Initial free memory 82.94 GiB, current "
            "free memory 90.17 GiB."
        ),
        near_miss="Memory profiling takes 38.06 seconds",
    ),
    Signature(
        id="cuda-context-no-memory",
        pattern=_NO_MEMORY,
        holds=_is_before_loading,
        cause=(
            "No memory is left for CUDA itself on this host, before anything is loaded; a lower "
            "gpu-memory-utilization does not help."
        ),
        fix=(
            "Find the processes that hold the memory (`nvidia-smi`, `{task:cluster.status}`), stop "
            f"them, and run {_DROP}."
        ),
        source="NVIDIA/xr-ai PR#440; vllm-project/vllm#48140",
        leads_to=("cuda-out-of-memory", "nv-no-memory"),
        sample="    torch.cuda.mem_get_info()\ntorch.AcceleratorError: CUDA error: out of memory",
        near_miss=(
            "Starting to load model x\ntorch.OutOfMemoryError: CUDA out of memory. Tried to "
            "allocate 2 GiB"
        ),
    ),
    Signature(
        id="jit-out-of-memory",
        pattern=(
            r"'(?:cicc|ptxas|cudafe\+\+|nvcc|cc1plus|fatbinary)' died due to signal (?:9|15)\b"
            r"|FAILED: \[code=(?:137|143|-9)\]|Killed signal terminated program"
            r"|^Killed\n(?:.{0,400}\n){0,3}?ninja: build stopped"
            r"|Command '\[?'?\S{0,100}(?:ninja|nvcc|ptxas).{0,600}"
            r"(?:exit status (?:137|143)|SIGKILL)"
        ),
        cause="Too many kernels were compiled at once: the compilers ran out of memory.",
        fix=(
            "Set MAX_JOBS: 4 in vllm_env, and keep FlashInfer's cache between starts, so that "
            "kernels are compiled only once."
        ),
        source=(
            "flashinfer-ai/flashinfer#3634; flashinfer-ai/flashinfer#3030; "
            "flashinfer-ai/flashinfer PR#3636"
        ),
        leads_to=("nv-no-memory", "exit-137", "cuda-out-of-memory", "kernel-oom-killed"),
        sample="nvcc error   : 'cicc' died due to signal 9 (Kill signal)",
        near_miss="FAILED: [code=1] fused_moe_120/moe.cuda.o",
    ),
    Signature(
        id="cache-on-network-filesystem",
        pattern=(
            r"Stale (?:NFS )?file handle|\[Errno 116\]"
            r"|(?:FileNotFoundError|Device or resource busy).{0,120}\.triton/cache/"
            r"|\.nfs[0-9a-f]{12,32}"
        ),
        cause=(
            "A cache of compiled kernels is in a folder that several hosts share by NFS, where "
            "files vanish under the compiler."
        ),
        fix=(
            "Keep the caches on each host's own disk: TRITON_CACHE_DIR, VLLM_CACHE_ROOT, "
            "TORCHINDUCTOR_CACHE_DIR and FLASHINFER_WORKSPACE_BASE in vllm_env."
        ),
        source=(
            "sgl-project/sglang#31347; pytorch/pytorch#173679; ServiceNow/Fast-LLM#45; "
            "sgl-project/sglang#472"
        ),
        sample="/usr/bin/ld: final link failed: Stale file handle",
        near_miss="/usr/bin/ld: final link failed: No space left on device",
    ),
    Signature(
        id="kernel-oom-killed",
        pattern=r"[Oo]ut of memory: Kill(?:ed)? process \d{1,9} \((?P<name>[^)\n]{1,40})\)",
        cause="The kernel ran out of memory and killed {name}.",
        fix=(
            "Lower gpu-memory-utilization or max-model-len in vllm_args, or stop other processes "
            "on that host."
        ),
        source="LMCache/LMCache#4759; eugr/spark-vllm-docker#321",
        leads_to=("exit-137", "mp-worker-died", "ray-rank-died", "rank-unresponsive"),
        sample="kernel: Out of memory: Killed process 4242 (VLLM::Worker_TP) total-vm:1kB",
        near_miss="Killed process group 4242",
    ),
    Signature(
        id="memory-guard",
        pattern=(
            r"memory guard: (?P<seen>[^ \n]{1,12} GiB) available, below [^ \n]{1,12} GiB while "
            r"(?P<phase>\w+)"
        ),
        cause="The memory guard stopped the ranks: {seen} were available while {phase}.",
        fix=(
            "Lower gpu-memory-utilization or max-model-len in vllm_args, or stop other processes "
            "on that host; guard_loading and guard_serving set the limits."
        ),
        source="docs/memory.md; TechPreacher/dgx-spark-vllm-cluster glm/README.md",
        own=True,
        near_miss="memory guard: armed at 5.0 GiB",
    ),
    Signature(
        id="ray-memory-monitor",
        pattern=(
            r"killed due to (?:the node running low on memory|memory pressure \(OOM\))"
            r"|RayOutOfMemoryError|exceeds the memory usage threshold of \d"
        ),
        cause="Ray's memory monitor killed a worker that was loading.",
        fix="Set RAY_memory_monitor_refresh_ms=0 before `ray start`, as `{task:cluster.up}` does.",
        source=(
            "MiaAI-Lab/GLM-5.3-Flash-NVFP4-Dual-DGX-Spark PR#2; vllm-project/vllm#2669; "
            "vllm-project/vllm#1160"
        ),
        near_miss="Ray's memory monitor is disabled: RAY_memory_monitor_refresh_ms=0",
    ),
    Signature(
        id="nv-no-memory",
        pattern=r"NV_ERR_NO_MEMORY",
        cause=(
            "The driver found no free memory for an allocation. Starts that succeed log it as "
            "well; near the end of a failed start it means that MemFree was exhausted."
        ),
        fix=f"Run {_DROP}, and lower gpu-memory-utilization in vllm_args.",
        source=(
            "NVIDIA/open-gpu-kernel-modules#1358; NVIDIA/dgx-spark-playbooks#97; "
            "vllm-project/vllm#56824; vllm-project/vllm#46307"
        ),
        role=FailureRole.WARNING,
        near_miss="NVRM: NV_ERR_INVALID_ARGUMENT returned from _memdescAllocInternal",
    ),
    Signature(
        id="gpu-memory-utilization-too-high",
        pattern=(
            r"Free memory on device.{0,300}\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on startup "
            r"is less than (?:desired GPU memory utilization|the engine's budget)"
        ),
        cause="{free} GiB of {total} are free, less than gpu-memory-utilization asks for.",
        fix=(
            "Lower gpu-memory-utilization in vllm_args (`{task:recipes.fit} RECIPE` shows the "
            f"highest that fits), close the desktop session, or run {_DROP}."
        ),
        source="MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#47; vllm-project/vllm#48140",
        near_miss="Free memory on device cuda:0 (115.0/121.6 GiB) on startup is enough",
    ),
    Signature(
        id="swap-space-too-large",
        pattern=(
            r"\bToo large swap space\. (?P<asked>[\d.]{1,10} GiB) out of the "
            r"(?P<all>[\d.]{1,10})"
        ),
        cause="swap-space sets {asked} of the {all} GiB of this host aside for swap.",
        fix="Set swap-space: 0 in vllm_args, or remove it: with unified memory it gains nothing.",
        source="instructlab/instructlab#2286; Ksuriuri/index-tts-vllm#99",
        sample=(
            "ValueError: Too large swap space. 16.00 GiB out of the 15.01 GiB total CPU memory is "
            "allocated for the swap space."
        ),
        near_miss=(
            "Possibly too large swap space. 4.00 GiB out of the 7.75 GiB total CPU memory is "
            "allocated for the swap space."
        ),
    ),
    Signature(
        id="kv-cache-no-memory",
        pattern=(
            r"No available memory for the cache blocks|Available KV cache memory: -"
            r"|Cannot auto-fit max_model_len: not enough GPU memory"
        ),
        cause="Nothing is left for the KV cache: the page cache counts as used memory.",
        fix=f"Run {_DROP}, or set kv-cache-memory-bytes in vllm_args.",
        source="NVIDIA/xr-ai PR#462",
        near_miss="Available KV cache memory: 12.5 GiB",
    ),
    Signature(
        id="kv-cache-too-small",
        pattern=(
            r"To serve at least one request with the models?(?:'s)? max seq len"
            r"|max seq len \(\d+\) is larger than the maximum number of tokens that can be stored"
        ),
        cause="The KV cache does not hold one request of the full context.",
        fix="Lower max-model-len in vllm_args, or raise gpu-memory-utilization.",
        source="vllm-project/vllm#10517; vllm-project/tpu-inference PR#223",
        near_miss="Maximum concurrency for 262,144 tokens per request: 1.2x; max seq len (262144)",
    ),
    Signature(
        id="mamba-block-above-batch",
        pattern=(
            r"In Mamba cache align mode, block_size \((?P<block>\d{1,9})\) must be <= "
            r"max_num_batched_tokens \((?P<batch>\d{1,9})\)"
        ),
        cause=(
            "Prefix caching of this hybrid model works in blocks of {block} tokens, and a batch "
            "holds {batch}."
        ),
        fix=(
            "Set max-num-batched-tokens to {block} or more in vllm_args, or "
            "no-enable-prefix-caching: true."
        ),
        source="vllm-project/vllm PR#36734; vllm-project/vllm#36697",
        leads_to=("config-invalid", "engine-start-failed"),
        sample=(
            "Assertion failed, In Mamba cache align mode, block_size (2096) must be <= "
            "max_num_batched_tokens (2048). [type=assertion_error, input_value=x]"
        ),
        near_miss="Setting attention block size to 800 tokens; max_num_batched_tokens (2048)",
    ),
    Signature(
        id="mamba-state-below-batch",
        pattern=r"assert num_cache_lines >= batch",
        cause=(
            "CUDA graphs are captured for more requests (max-num-seqs) than the memory holds "
            "states of the linear attention (Mamba, GDN) layers."
        ),
        fix=(
            "Set max-num-seqs lower in vllm_args (16, say), raise gpu-memory-utilization, or use a "
            "newer image, which says how many fit."
        ),
        source="vllm-project/vllm#34094; vllm-project/vllm PR#36639; vllm-project/vllm#35945",
        leads_to=("engine-start-failed", "kernel-failed"),
        sample="    assert num_cache_lines >= batch\n           ^^^^^^^^\nAssertionError",
        near_miss="num_cache_lines=512 batch=16",
    ),
    Signature(
        id="mamba-blocks-few",
        pattern=(
            r"max_num_seqs \((?P<seqs>\d+)\) exceeds available Mamba cache blocks "
            r"\((?P<blocks>\d+)\)"
        ),
        cause=(
            "Each request needs a Mamba cache block, and memory holds {blocks} of them, fewer than "
            "max-num-seqs ({seqs})."
        ),
        fix=(
            "Set max-num-seqs to at most {blocks} in vllm_args; a higher gpu-memory-utilization "
            "gives more blocks."
        ),
        source=(
            "NVIDIA-NeMo/RL#2620; vllm-project/recipes#551; vllm-project/vllm#38632; "
            "vllm-project/vllm#49064"
        ),
        leads_to=("executor-failed",),
        sample="ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (658).",
        near_miss="Maximum concurrency for 8,192 tokens per request: 12.50x; max_num_seqs (256)",
    ),
    Signature(
        id="cuda-out-of-memory",
        pattern=rf"CUDA out of memory|{_NO_MEMORY}|torch(?:\.cuda)?\.OutOfMemoryError",
        holds=_is_after_start,
        cause="The GPU's share of unified memory is exhausted.",
        fix="Set gpu-memory-utilization to 0.7 to 0.85 and lower max-model-len in vllm_args.",
        source="vllm-project/recipes#632",
        near_miss="CUDA graph memory: 0.5 GiB",
    ),
    Signature(
        id="earlyoom-killed",
        pattern=(
            r"\bearlyoom\b.{0,60}\bSIG(?:TERM|KILL)|\bdgx-anti-oom\b"
            r"|low memory! at or below SIG(?:TERM|KILL) limits"
        ),
        cause="A user-space OOM killer stopped the engine.",
        fix="Lower gpu-memory-utilization in vllm_args, or adjust the killer's thresholds.",
        source=(
            "tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark#31; "
            "Blackwellboy/model-serving-minefield PR#134"
        ),
        recorded=False,
        near_miss="earlyoom: mem avail: 90 of 121 GiB",
    ),
    Signature(
        id="exit-137",
        pattern=r"(?i)\bexit(?:ed)?\b.{0,20}\b137\b|^Killed$",
        cause="The process was killed: too many compile jobs, or too little memory.",
        fix="Set MAX_JOBS low in vllm_env, or lower gpu-memory-utilization in vllm_args.",
        source="flashinfer-ai/flashinfer#3634; eugr/spark-vllm-docker#52",
        role=FailureRole.SYMPTOM,
        holds=_is_killed_by_another,
        near_miss=(
            "Got fatal signal from worker processes, shutting down. See stack trace above.\nKilled"
        ),
    ),
    Signature(
        id="too-many-open-files",
        pattern=(
            r"(?<!`OSError: )\[Errno 24\] Too many open files"
            r"|unable to open shared memory object .{1,80}: Too many open files"
        ),
        cause="The process has reached its limit of open files.",
        fix=_FILES,
        source="eugr/spark-vllm-docker README",
        near_miss="This can cause fd limit errors like `OSError: [Errno 24] Too many open files`.",
    ),
    Signature(
        id="open-file-limit-low",
        pattern=r"Found ulimit of (?P<limit>\d+) and failed to automatically increase",
        cause="At most {limit} files can be open.",
        fix=_FILES,
        source="vLLM's own message; eugr/spark-vllm-docker README",
        role=FailureRole.WARNING,
        near_miss="Found ulimit of 1048576",
    ),
)
