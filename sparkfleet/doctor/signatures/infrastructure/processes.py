"""Failures between an engine's processes: memory that they share, and the values they are given."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

ROWS = (
    Signature(
        id="env-value-empty",
        pattern=(
            r"\b(?:int|float)\(os\.(?:environ(?:\.get\(|\[)|getenv\()[\"'](?P<name>\w{1,80})[\"']"
            r".{0,120}\n(?:[ ~^]{1,200}\n)?ValueError: (?:invalid literal for int\(\) with base 10"
            r"|could not convert string to float): b?''"
        ),
        cause="The environment variable {name} is set, but empty, where a number is expected.",
        fix=(
            "Set {name}: null in vllm_env and nccl_env: it is then unset in the container. An "
            "empty value of a compose or shell file is not the same as none."
        ),
        source="m4mallu/uniquify#12; xgorn/X-URL-Uploader#1",
        leads_to=("options-refused", "engine-start-failed"),
        sample=(
            '    "VLLM_PORT": lambda: int(os.getenv("VLLM_PORT", "0")),\n'
            "ValueError: invalid literal for int() with base 10: ''"
        ),
        near_miss=(
            '    "VLLM_PORT": lambda: int(os.getenv("VLLM_PORT", "0")),\n'
            "ValueError: invalid literal for int() with base 10: 'tcp://10.0.0.1:80'"
        ),
    ),
    Signature(
        id="visible-devices-not-numbers",
        pattern=(
            r"return int\((?:physical_)?device_ids?(?:\[\w{1,20}\])?\)\n(?:[ ~^]{1,200}\n)?"
            r"ValueError: invalid literal for int\(\) with base 10: '(?P<value>[^'\n]{0,120})'"
        ),
        cause="CUDA_VISIBLE_DEVICES is '{value}', and this vLLM reads only numbers there.",
        fix=(
            "Leave CUDA_VISIBLE_DEVICES unset in vllm_env and in the image: a Spark has one GPU, "
            "number 0."
        ),
        source="vllm-project/vllm#13815; vllm-project/vllm#41848; gpustack/gpustack#4844",
        leads_to=("options-refused", "engine-start-failed"),
        sample=(
            "    return int(physical_device_id)\n           ^^^^^^^^^^^^^^^^^^^^^^^\n"
            "ValueError: invalid literal for int() with base 10: 'GPU-52a3a85d'"
        ),
        near_miss="ValueError: invalid literal for int() with base 10: 'GPU-52a3a85d'",
    ),
    Signature(
        id="cuda-memory-not-shared",
        pattern=(
            r"pidfd_(?P<call>getfd|open): ?Operation not permitted"
            r"|does not support the pidfd_open syscall needed to use IPC for CUDA tensors"
        ),
        cause=(
            "A process may not take over CUDA memory of another one: with expandable_segments "
            "PyTorch shares it by the call pidfd_getfd, which containers and ptrace_scope forbid."
        ),
        fix=(
            "Remove expandable_segments:True from PYTORCH_CUDA_ALLOC_CONF in vllm_env; otherwise "
            "start the container with `--cap-add SYS_PTRACE`."
        ),
        source=(
            "pytorch/pytorch#165685; verl-project/verl#3377; OpenRLHF/OpenRLHF#957; "
            "alibaba/ROLL#417"
        ),
        leads_to=("engine-start-failed", "mp-worker-died"),
        sample="RuntimeError: pidfd_getfd: Operation not permitted",
        near_miss="RuntimeError: pidfd_getfd: Bad file descriptor",
    ),
    Signature(
        id="symmetric-memory-failed",
        pattern=(
            r"(?i:Failed to send fd): (?P<why>No such file or directory|Connection refused)"
            r"|_SymmetricMemory\.rendezvous\(.{0,120}\n(?:[ ~^]{1,200}\n)?"
            r"RuntimeError: (?P<error>CUDA driver error: .{1,100})"
        ),
        cause=(
            "PyTorch's symmetric memory cannot be used between these ranks: it needs GPUs of one "
            "host that reach each other's memory."
        ),
        fix=(
            "Set VLLM_ALLREDUCE_USE_SYMM_MEM: 0 in vllm_env; between Sparks, which share no "
            "NVLink, NCCL does the same work."
        ),
        source=(
            "pytorch/pytorch#171495; pytorch/torchtitan#1475; vllm-project/vllm#25937; "
            "pytorch/pytorch PR#194912"
        ),
        leads_to=("engine-start-failed",),
        sample="RuntimeError: Failed to send fd: No such file or directory",
        near_miss="failed to send fdb dump request: No such file or directory",
    ),
    Signature(
        id="uva-unavailable",
        pattern=r"\bRuntimeError: UVA is not available",
        cause=(
            "vLLM's second model runner needs pinned memory of the host, which is off here, as it "
            "is by default under WSL2."
        ),
        fix=(
            "Under WSL2 set VLLM_WSL2_ENABLE_PIN_MEMORY: 1 in vllm_env, or "
            "VLLM_USE_V2_MODEL_RUNNER: 0 for the first model runner."
        ),
        source=(
            "vllm-project/vllm#47387; vllm-project/vllm#47292; vllm-project/vllm#54652; "
            "vllm-project/vllm PR#47579"
        ),
        leads_to=("engine-start-failed", "mp-worker-died", "weights-not-loaded"),
        sample="RuntimeError: UVA is not available",
        near_miss="WARNING 05-22 [interface.py:729] Using 'pin_memory=False' as WSL is detected.",
    ),
    Signature(
        id="cuda-not-ready",
        pattern=r"CUDA (?:driver )?error: device not ready",
        cause=(
            "A call of CUDA for memory ended with `device not ready`. It was seen under WSL2, "
            "with expandable_segments or a GPU whose memory was nearly full."
        ),
        fix=(
            "Remove expandable_segments:True from PYTORCH_CUDA_ALLOC_CONF in vllm_env and lower "
            "gpu-memory-utilization in vllm_args."
        ),
        source="vllm-project/vllm#44022; noonghunna/club-3090#50; noonghunna/club-3090#60",
        role=FailureRole.SYMPTOM,
        leads_to=("engine-start-failed",),
        sample="RuntimeError: CUDA driver error: device not ready",
        near_miss="LOG_ERR: display device not ready",
    ),
    Signature(
        id="front-end-silent",
        pattern=r"Did not receive response from front-end process within (?P<minutes>\d{1,4}) min",
        cause=(
            "The engine waited {minutes} minutes in vain for the API server: another engine of "
            "the same start failed or is still loading, or its data-parallel address is not "
            "reached from here."
        ),
        fix=(
            "Find the first error of all engines and hosts; with several hosts, "
            "data-parallel-address and data-parallel-rpc-port must be open from each worker."
        ),
        source="vllm-project/vllm-ascend#9317; thegodloy-jpg/wings-control",
        role=FailureRole.SYMPTOM,
        leads_to=("engine-start-failed",),
        sample="RuntimeError: Did not receive response from front-end process within 5 minutes",
        near_miss="HELLO from local core engine process 0.",
    ),
    Signature(
        id="process-crashed",
        pattern=(
            r"(?:\*{3} SIG|Fatal Python error: |Caught signal \d{1,2} \()"
            r"(?P<what>SEGV|ABRT|ILL|FPE|Segmentation fault|Aborted|Illegal instruction)\b"
            r"(?:.{0,80}\nPC: @ {1,8}0x\w{1,16} {1,4}\S{1,20} {1,4}(?P<where>\S.{0,80}))?"
        ),
        cause=(
            "A process crashed in native code: {what} (function: {where}). An abort often follows "
            "from an error before it, a segmentation fault does not."
        ),
        fix=(
            "The frames below this line name the library: of NCCL (names with Proxy or nccl) "
            "compare its version on all hosts, of a kernel set another attention-backend or "
            "moe-backend in vllm_args."
        ),
        source="vllm-project/vllm#17770; vllm-project/vllm#15687; sgl-project/sglang#3745",
        role=FailureRole.SYMPTOM,
        leads_to=("ray-worker-killed", "mp-worker-died", "gloo-peer-closed", "rank-unresponsive"),
        sample="*** SIGSEGV received at time=1746566409 on cpu 131 ***",
        near_miss="*** SIGTERM received at time=1739097071 on cpu 95 ***",
    ),
)
