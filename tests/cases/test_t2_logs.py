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


def test_the_addresses_between_which_nothing_gets_through_are_named() -> None:
    cause = _diagnose(_read("T2-30.nccl.no-route-to-host")).causes[0].cause
    assert "10.0.0.5 cannot reach 10.0.0.4 on port 56849 (No route to host)" in cause


def test_memory_that_cuda_itself_lacks_is_not_blamed_on_the_utilization() -> None:
    causes = _diagnose(_read("T2-20.vllm-log.oom-in-mem_get_info")).causes
    assert [cause.id for cause in causes] == ["cuda-context-no-memory"]
    assert "does not help" in causes[0].cause
