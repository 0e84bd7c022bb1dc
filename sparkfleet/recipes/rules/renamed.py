"""Replacements of options and variables that vLLM has dropped, from its own source."""

from __future__ import annotations

from collections.abc import Mapping

MOE = "vllm_args: moe-backend: ..."
LINEAR = "vllm_args: linear-backend: ..."
# From the messages of deprecation in vllm/engine/arg_utils.py of 0.11.2
OPTIONS: Mapping[str, str] = {
    "cuda-graph-sizes": "vllm_args: cudagraph-capture-sizes: ...",
    "disable-log-requests": "requests are logged only where enable-log-requests is true",
    "disable-mm-preprocessor-cache": "vllm_args: mm-processor-cache-gb: 0",
    "enable-multimodal-encoder-data-parallel": "vllm_args: mm-encoder-tp-mode: data",
    "guided-decoding-backend": "vllm_args: structured-outputs-config: {backend: ...}",
}
# From `deprecated_env` in vllm/envs.py of 0.22.1; the first from config/attention.py of 0.14.1
VARIABLES: Mapping[str, str] = {
    "VLLM_ATTENTION_BACKEND": "vllm_args: attention-backend: ...",
    "VLLM_FLASHINFER_MOE_BACKEND": MOE,
    "VLLM_MXFP4_USE_MARLIN": "vllm_args: moe-backend: marlin, or linear-backend: marlin",
    "VLLM_NVFP4_GEMM_BACKEND": LINEAR,
    "VLLM_USE_FLASHINFER_MOE_FP16": MOE,
    "VLLM_USE_FLASHINFER_MOE_FP4": MOE,
    "VLLM_USE_FLASHINFER_MOE_FP8": MOE,
    "VLLM_USE_FLASHINFER_MOE_MXFP4_BF16": MOE,
    "VLLM_USE_NVFP4_CT_EMULATIONS": "vllm_args: linear-backend: emulation",
}
