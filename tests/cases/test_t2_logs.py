"""T2: logs of public reports from November 2026, each with its cause first."""

from __future__ import annotations

import pytest

from sparkfleet.doctor.diagnosis import Diagnosis, diagnose_logs
from sparkfleet.doctor.logs import LogBundle, LogFile
from sparkfleet.doctor.reasons import find_first_error
from tests.gb10 import OUTPUTS

CAUSES = (
    ("T2-17.vllm-log.ptxas-sm_121a", "ptxas-too-old", "TRITON_PTXAS_PATH"),
    ("T2-19.vllm-log.error-in-memory-profiling", "profiling-memory-rose", "kv-cache-memory-bytes"),
    ("T2-20.vllm-log.oom-in-mem_get_info", "cuda-context-no-memory", "drop_caches"),
    ("T2-21.vllm-log.harmony-vocab-offline", "harmony-vocabulary", "TIKTOKEN_ENCODINGS_BASE"),
    ("T2-23.docker-pull.no-matching-manifest", "image-architecture", "linux/arm64"),
    ("T2-23.docker-run.exec-format-error", "image-architecture", "linux/arm64"),
    ("T2-25.vllm-log.libcudart-so-12", "cuda12-wheel", "cu130"),
    ("T2-26.vllm-log.libtorch_cuda-missing", "pytorch-cpu-build", "cu130"),
    ("T2-26.vllm-log.undefined-symbol", "pytorch-abi-mismatch", "digest"),
    ("T2-27.vllm-log.unknown-attention-backend", "attention-backend-unknown", "attention-backend"),
    ("T2-29.vllm-log.pp-keyerror-layer", "pp-layer-of-another-rank", "--tp"),
    ("T2-30.nccl.no-route-to-host", "peer-unreachable", "links.verify"),
    ("T2-32.ray-head.node-marked-dead", "ray-node-marked-dead", "ufw"),
    ("T2-32.ray-worker.mistakenly-marked-dead", "ray-node-marked-dead", "ufw"),
    ("T2-34.hf.cas-service-error", "xet-download-failed", "HF_HUB_DISABLE_XET"),
    ("T2-34.hf.xet-hex-hash", "xet-download-failed", "HF_HUB_DISABLE_XET"),
    ("T2-36.vllm-log.sample_tokens-timed-out", "rank-unresponsive", "memory"),
    ("T2-38.vllm-log.path-not-in-mount", "model-path-missing", "config.json"),
    ("T2-40.vllm-log.mamba-block-size", "mamba-block-size", "enable-prefix-caching"),
    ("T2-41.nvidia-smi.version-mismatch", "driver-library-mismatch", "Reboot"),
    ("T2-46.vllm-log.jit-cicc-signal-9", "jit-out-of-memory", "MAX_JOBS"),
    ("T2-46.vllm-log.jit-oom-137", "jit-out-of-memory", "MAX_JOBS"),
    ("T2-47.vllm-log.stale-file-handle", "cache-on-network-filesystem", "TRITON_CACHE_DIR"),
)
REASONS = (
    ("T2-17.vllm-log.ptxas-sm_121a", "ptxas fatal   : Value 'sm_121a' is not defined"),
    ("T2-23.docker-pull.no-matching-manifest", "docker: no matching manifest for linux/arm64/v8"),
    ("T2-23.docker-run.exec-format-error", "exec /usr/bin/bash: exec format error"),
    ("T2-27.vllm-log.unknown-attention-backend", "Value error, Unknown attention backend: 'B12X"),
    ("T2-29.vllm-log.pp-keyerror-layer", "KeyError: 'language_model.model.layers.40"),
    ("T2-30.nccl.no-route-to-host", "node5:240:240 [6] misc/socket.cc:533 NCCL WARN socketPoll"),
    ("T2-32.ray-worker.mistakenly-marked-dead", "[Timeout] Exiting because this node manager"),
    ("T2-34.hf.cas-service-error", "RuntimeError: Data processing error: CAS service error"),
    ("T2-40.vllm-log.mamba-block-size", "Value error, --mamba-block-size can only be set with"),
    ("T2-41.nvidia-smi.version-mismatch", "Failed to initialize NVML: Driver/library version"),
    ("T2-46.vllm-log.jit-cicc-signal-9", "nvcc error   : 'cicc' died due to signal 9"),
    ("T2-46.vllm-log.jit-oom-137", "Killed"),
    ("T2-47.vllm-log.stale-file-handle", "/usr/bin/ld: final link failed: Stale file handle"),
)
# What carries a log adds these to each line.
CARRIERS = (
    "2026-11-28T10:00:00.123456789Z ",
    "Nov 28 10:00:00 spark-01 docker[4711]: ",
    "2026-11-28T10:00:00+0100 spark-01 vllm[4711]: ",
    "vllm-1  | ",
    "[0]:",
    "[rank1]: ",
    "[pod/vllm-0/vllm] ",
    "\x1b[36m(RayWorkerWrapper pid=227)\x1b[0m ",
    "Loading:  10%|#  | 1/9\r",
)
# From other public reports of the same kinds.
RELATED = (
    (
        "opendatalab/MinerU#4350",
        "ptxas-too-old",
        (
            "triton.runtime.errors.PTXASError: PTXAS error: Internal Triton PTX codegen error\n"
            "`ptxas` stderr:\n"
            "ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'"
        ),
    ),
    (
        "gpustack/gpustack#4372",
        "ptxas-too-old",
        "ptxas fatal : Value 'sm_121a' is not defined for option 'gpu-name'",
    ),
    (
        "vllm-project/vllm#30855",
        "no-kernel-image",
        (
            "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the "
            "device"
        ),
    ),
    (
        "gpustack/gpustack#2097",
        "no-kernel-image",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
    ),
    (
        "spark-arena/sparkrun#220",
        "sm121-kernel-missing",
        (
            "RuntimeError: Assertion error (include_parser.hpp:69): Failed to open: /usr/local/lib/"
            "python3.12/dist-packages/vllm/third_party/deep_gemm/include/deep_gemm/impls/"
            "sm121_fp8_mqa_logits.cuh"
        ),
    ),
    (
        "vllm-project/vllm#13608",
        "pytorch-abi-mismatch",
        "ImportError: /w/vllm/_C.abi3.so: undefined symbol: _ZN5torch3jit17parseSchemaOrNameERKSsb",
    ),
    (
        "vllm-project/vllm#3528",
        "pytorch-abi-mismatch",
        (
            "ImportError: /x/vllm/_C.cpython-310-x86_64-linux-gnu.so: undefined symbol: "
            "_ZN2at4_ops15to_dtype_layout4callERKNS_6TensorE"
        ),
    ),
    (
        "vllm-project/vllm#23925",
        "vllm-kernels-missing",
        (
            "ImportError: /x/vllm/_C.abi3.so: undefined symbol: "
            "_Z24silu_and_mul_nvfp4_quantRN2at6TensorES1_S1_S1_"
        ),
    ),
    (
        "vllm-project/vllm#56830",
        "profiling-memory-rose",
        (
            "AssertionError: Error in memory profiling. Initial free memory 82.94 GiB, "
            "current free "
            "memory 90.17 GiB. This happens when other processes sharing the same container release"
        ),
    ),
    (
        "vllm-project/vllm PR#33358",
        "profiling-memory-rose",
        (
            "(EngineCore_DP0 pid=418) ERROR 01-29 15:38:21 [core.py:946] AssertionError: Error in "
            "memory profiling. Initial free memory 30.3 GiB, current free memory 30.3 GiB."
        ),
    ),
    (
        "sgl-project/sglang#18074",
        "harmony-vocabulary",
        (
            "Failed to load Harmony encoding: error downloading or loading vocab file: failed to "
            "download or load vocab file"
        ),
    ),
    (
        "NVIDIA/dgx-spark-playbooks#17",
        "harmony-vocabulary",
        (
            "[11/02/2025-22:00:50] [TRT-LLM] [E] Error in harmony chat completion: %s error "
            "downloading or loading vocab file: failed to download or load vocab file"
        ),
    ),
    (
        "huggingface/huggingface_hub#3036",
        "xet-download-failed",
        (
            "RuntimeError: Data processing error: CAS service error : Error : single flight error: "
            "Real call failed: CasObjectError(InternalIOError("
        ),
    ),
    (
        "huggingface/xet-core#444",
        "xet-download-failed",
        "RuntimeError: Data processing error: CAS service error : IO Error: Timer expired",
    ),
    (
        "flashinfer-ai/flashinfer PR#3636",
        "jit-out-of-memory",
        (
            "FAILED: [code=137] fp4_gemm_cutlass_sm120/fp4_gemm.cuda.o\nninja: build stopped: "
            "subcommand failed."
        ),
    ),
    (
        "flashinfer-ai/flashinfer#3030",
        "jit-out-of-memory",
        (
            "subprocess.CalledProcessError: Command '['ninja', '-v', '-C', "
            "'/x/cached_ops']' returned "
            "non-zero exit status 137."
        ),
    ),
    (
        "ServiceNow/Fast-LLM#45",
        "cache-on-network-filesystem",
        "OSError: [Errno 116] Stale file handle",
    ),
    (
        "triton-lang/triton#4002",
        "cache-on-network-filesystem",
        (
            "FileNotFoundError: [Errno 2] No such file or directory: "
            "'/home/ubuntu/.triton/cache/c1/kernel.cubin.tmp.pid_9'"
        ),
    ),
    (
        "gpustack/gpustack#5096",
        "tokenizer-transformers-5",
        (
            "(APIServer pid=93) ValueError: Tokenizer class TokenizersBackend does not exist or is "
            "not currently imported."
        ),
    ),
    (
        "eugr/spark-vllm-docker#170",
        "tokenizer-transformers-5",
        (
            "(APIServer pid=112) ValueError: Tokenizer class TokenizersBackend does not "
            "exist or is "
            "not currently imported."
        ),
    ),
    (
        "ray-project/ray#15128",
        "ray-node-marked-dead",
        (
            "The node with node id: 75b2 and ip: 10.4.4.107 has been marked dead "
            "because the detector "
            "has missed too many heartbeats from it."
        ),
    ),
    (
        "ray-project/ray#54035",
        "ray-node-marked-dead",
        (
            '{"host_name":"minion-1","label":"RAYLET_MARKED_DEAD","message":"[Timeout] Exiting '
            "because this node manager has mistakenly been marked as dead by the GCS: "
            "GCS failed to "
            'check the health of this node for 5 times.","severity":"FATAL"}'
        ),
    ),
    (
        "vllm-project/vllm#40649",
        "pp-layer-of-another-rank",
        "KeyError: 'model.layers.20.self_attn.attn'",
    ),
    (
        "vllm-project/vllm-ascend#8440",
        "pp-layer-of-another-rank",
        (
            "(EngineCore pid=1289) (RayWorkerWrapper pid=1888, ip=172.16.0.115) ERROR "
            "04-20 12:59:32 "
            "[ray_utils.py:74] KeyError: 'model.layers.0.self_attn.attn'"
        ),
    ),
    (
        "vllm-project/vllm#31480",
        "attention-backend-unfit",
        (
            "(Worker_TP4_EP4 pid=2532) ERROR 12-29 15:21:11 [multiproc_executor.py:751] "
            "ValueError: No "
            "valid attention backend found for cuda with AttentionSelectorConfig(head_size=576). "
            "Reasons: {FLASH_ATTN_MLA: [sparse not supported]}."
        ),
    ),
    (
        "vllm-project/vllm PR#14221",
        "kv-cache-dtype-unfit",
        (
            "ERROR 03-04 17:08:57 [core.py:303] NotImplementedError: FlashAttention V1 with FP8 KV "
            "cache not yet supported"
        ),
    ),
    (
        "zai-org/GLM-4.5#58",
        "parser-unknown",
        (
            "vllm serve: error: argument --tool-call-parser: invalid choice: 'glm45' (choose from "
            "'deepseek_v3', 'glm4_moe')"
        ),
    ),
    (
        "vllm-project/vllm#9312",
        "parser-unknown",
        (
            "api_server.py: error: argument --tool-call-parser: invalid choice: "
            "'llama3_json' (choose "
            "from 'mistral', 'hermes')"
        ),
    ),
    (
        "onnxruntime/mobius#316",
        "driver-too-old",
        "CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version ; GPU=-1",
    ),
    (
        "nagadomi/nunif#702",
        "driver-too-old",
        "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version",
    ),
    (
        "NVIDIA/nccl PR#1618",
        "peer-unreachable",
        (
            "NCCL WARN socketPollConnect: Connect to 172.16.30.229<39953> returned 110(Connection "
            "timed out) errno 115(Operation now in progress)"
        ),
    ),
    (
        "NVIDIA/nvidia-container-toolkit#394",
        "driver-library-mismatch",
        (
            "nvidia-container-cli: initialization error: nvml error: driver/library "
            "version mismatch: "
            "unknown."
        ),
    ),
    (
        "tinygrad/open-gpu-kernel-modules#47",
        "driver-library-mismatch",
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.124",
    ),
    (
        "vllm-project/vllm#37250",
        "rank-unresponsive",
        (
            "2026-03-09 01:31:29.489157625 (EngineCore_DP0 pid=32080) ERROR 03-08 17:31:28 "
            "[core.py:1] TimeoutError: RPC call to sample_tokens timed out."
        ),
    ),
    (
        "vllm-project/vllm#17965",
        "rank-unresponsive",
        "TimeoutError: RPC call to execute_model timed out.",
    ),
    (
        "vllm-project/vllm#30076",
        "image-architecture",
        (
            '{"msg":"exec container process `/opt/venv/bin/vllm`: Exec format '
            'error","level":"error",'
            '"time":"2025-12-04T15:15:35.826445Z"}'
        ),
    ),
    (
        "microsoft/TRELLIS.2#32",
        "image-architecture",
        (
            "The requested image's platform (linux/amd64) does not match the detected "
            "host platform "
            "(linux/arm64/v8) and no specific platform was requested"
        ),
    ),
    (
        "eugr/spark-vllm-docker#21",
        "wheel-platform",
        "vllm==0.15.0rc2.dev75+g3a92c6f3b.cu130 has no wheels with a matching platform tag",
    ),
)


def _read(name: str) -> str:
    return (OUTPUTS / f"{name}.txt").read_bytes().decode()


def _diagnose(text: str) -> Diagnosis:
    return diagnose_logs(LogBundle(logs=(LogFile(name="serve.log", host="spark-01", text=text),)))


@pytest.mark.parametrize(("name", "id_", "fix"), CAUSES, ids=[case[0][:40] for case in CAUSES])
def test_the_cause_comes_first(name: str, id_: str, fix: str) -> None:
    first = _diagnose(_read(name)).causes[0]
    assert first.id == id_
    assert fix in first.fix


@pytest.mark.parametrize(("name", "reason"), REASONS, ids=[case[0][:40] for case in REASONS])
def test_without_a_signature_the_innermost_reason_is_shown(name: str, reason: str) -> None:
    error = find_first_error(_read(name))
    assert error is not None
    assert error.text.startswith(reason)
    assert error.text in _read(name).splitlines()[error.line - 1]


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize(("name", "id_", "fix"), CAUSES, ids=[case[0][:40] for case in CAUSES])
def test_what_carries_a_log_hides_no_cause(name: str, id_: str, fix: str, carrier: str) -> None:
    lines = (f"{carrier}{line}" for line in _read(name).splitlines())
    assert _diagnose("\n".join(lines)).causes[0].id == id_


@pytest.mark.parametrize(
    ("source", "id_", "text"), RELATED, ids=[f"{case[1]} {case[0]}" for case in RELATED]
)
def test_other_reports_of_the_same_kind_have_the_same_cause(
    source: str, id_: str, text: str
) -> None:
    assert _diagnose(text).causes[0].id == id_, source


def test_the_addresses_between_which_nothing_gets_through_are_named() -> None:
    cause = _diagnose(_read("T2-30.nccl.no-route-to-host")).causes[0].cause
    assert "10.0.0.5 cannot reach 10.0.0.4 on port 56849 (No route to host)" in cause


def test_memory_that_cuda_itself_lacks_is_not_blamed_on_the_utilization() -> None:
    causes = _diagnose(_read("T2-20.vllm-log.oom-in-mem_get_info")).causes
    assert [cause.id for cause in causes] == ["cuda-context-no-memory"]
    assert "does not help" in causes[0].cause
