"""Flags that choose kernels, which are right for one model and ruin another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from packaging.version import Version

from sparkfleet.model import Severity
from sparkfleet.recipes.rules.images import COMMUNITY, FORK_OPTIONS
from sparkfleet.recipes.rules.models import (
    GEMMA4_MOE,
    NEMOTRON3,
    QWEN35,
    QWEN35_MOE,
    QWEN36_MOE,
    SSM_AND_MOE,
    is_gemma4,
    is_model,
    is_nvfp4,
)
from sparkfleet.recipes.rules.rule import Rule, RuleFinding
from sparkfleet.recipes.rules.rule_context import RuleContext
from sparkfleet.vllm.environment import is_switched_on
from sparkfleet.vllm.options import VllmOption, parse_json_object
from sparkfleet.vllm.releases import parse_version

NATIVE_FP4 = "VLLM_USE_FLASHINFER_MOE_FP4"
ATTENTION = "VLLM_ATTENTION_BACKEND"
FP8_CACHE_MEASURED = re.compile(r"qwen3\.5-122b-a10b-nvfp4")  # by NVIDIA with 0.28.0, 2026-09
FP8_CACHE_SINCE = Version("0.28.0")
# Backends whose supports_compute_capability leaves out 12.1, and those of other makers.
OTHER_GPUS = {
    "CUTLASS_MLA": "GPUs of compute capability 10",
    "FLASHINFER_MLA": "GPUs of compute capability 10",
    "FLASHINFER_MLA_SPARSE_SM90": "GPUs of compute capability 9",
    "FLASHMLA": "GPUs of compute capability 9 and 10",
    "FLASHMLA_SPARSE": "GPUs of compute capability 9 and 10",
    "FLASH_ATTN_MLA": "GPUs of compute capability 9",
    "FLASH_ATTN_MLA_SPARSE": "GPUs of compute capability 9",
    "TOKENSPEED_MLA": "GPUs of compute capability 10",
}
FOR_LATENT = (
    *("CUTLASS_MLA", "FLASHINFER_MLA", "FLASHMLA", "FLASH_ATTN_MLA", "TOKENSPEED_MLA"),
    "TRITON_MLA",
)
FOR_HEADS = ("FLASHINFER", "FLASH_ATTN", "FLEX_ATTENTION", "TRITON_ATTN")
OTHER_MAKERS = {"ROCM_": "AMD's GPUs", "XPU_": "Intel's GPUs"}


def _check_chunked_prefill(context: RuleContext) -> Iterator[RuleFinding]:
    option = context.enabled_option("enable-chunked-prefill")
    verified = is_model(context, QWEN35_MOE)
    kin = is_model(context, NEMOTRON3) or SSM_AND_MOE.match(context.architecture) is not None
    if option is not None and (verified or kin):
        yield RuleFinding(
            subject=option.flag,
            expected="unset, for a model of SSM and MoE layers",
            seen="it set",
            where=option.where,
            fix="remove enable-chunked-prefill from vllm_args",
            severity=Severity.WARNING if verified else Severity.INFO,
        )


def _check_fp8_cache(context: RuleContext) -> Iterator[RuleFinding]:
    option = context.option("kv-cache-dtype")
    if option is None or not is_model(context, QWEN35) or _has_measured_fp8_cache(context):
        return
    if str(option.value).lower().startswith("fp8"):
        yield RuleFinding(
            subject=option.flag,
            expected="unset, for Qwen3.5",
            seen=str(option.value),
            where=option.where,
            fix="remove kv-cache-dtype from vllm_args",
            severity=Severity.WARNING,
        )


def _has_measured_fp8_cache(context: RuleContext) -> bool:
    version = parse_version(context.version)
    recent = version is not None and version >= FP8_CACHE_SINCE
    return recent and is_model(context, FP8_CACHE_MEASURED)


def _check_marlin(context: RuleContext) -> Iterator[RuleFinding]:
    documented = is_model(context, GEMMA4_MOE) or is_model(context, QWEN36_MOE)
    if not documented or not is_nvfp4(context):
        return
    backend = context.value("moe-backend")
    # NVIDIA measured Gemma-4-26B-A4B with the backend that this build chooses, 2026-09
    chosen = context.image.repository == COMMUNITY and not backend and is_gemma4(context)
    if backend != "marlin" and not chosen:
        yield RuleFinding(
            subject="--moe-backend",
            expected="marlin, for an NVFP4 MoE on the GB10's sm_121",
            seen=backend or "unset",
            where=context.at("moe-backend", "vllm_args", "vllm_model"),
            fix="write in vllm_args: moe-backend: marlin",
            severity=Severity.WARNING,
        )
    if is_switched_on(context.environment.get(NATIVE_FP4)):
        yield RuleFinding(
            subject=NATIVE_FP4,
            expected="0: the native FP4 kernel for MoE does not run right on sm_121",
            seen=str(context.environment[NATIVE_FP4]),
            where=context.at(NATIVE_FP4),
            fix=f"write in vllm_env: {NATIVE_FP4}: 0",
            severity=Severity.WARNING,
        )


def _check_attention_backend(context: RuleContext) -> Iterator[RuleFinding]:
    if context.environment.get(ATTENTION) is not None and is_gemma4(context):
        yield RuleFinding(
            subject=ATTENTION,
            expected="unset: vLLM forces TRITON_ATTN for Gemma 4 and ignores it",
            seen=str(context.environment[ATTENTION]),
            where=context.at(ATTENTION),
            fix=f"remove {ATTENTION} from vllm_env",
            severity=Severity.WARNING,
        )


def _check_attention_gpu(context: RuleContext) -> Iterator[RuleFinding]:
    for option, name in find_attention_backends(context):
        makers = (gpus for prefix, gpus in OTHER_MAKERS.items() if name.startswith(prefix))
        if gpus := OTHER_GPUS.get(name) or next(makers, ""):
            of_fork = context.image.repository in (COMMUNITY, *FORK_OPTIONS)
            yield RuleFinding(
                subject=option.flag,
                expected="a backend that runs on the GB10, of compute capability 12.1",
                seen=f"{name}, which is for {gpus}",
                where=option.where,
                fix=f"remove {option.name}: vLLM then chooses one that runs",
                severity=Severity.ERROR if context.version and not of_fork else Severity.WARNING,
            )


def _check_attention_kind(context: RuleContext) -> Iterator[RuleFinding]:
    latent = context.facts.latent
    if latent is None or is_switched_on(context.environment.get("VLLM_MLA_DISABLE")):
        return
    for option, name in find_attention_backends(context):
        if name in (FOR_HEADS if latent else FOR_LATENT):
            kind = "multi-head latent attention (MLA)" if latent else "heads of keys and values"
            yield RuleFinding(
                subject=option.flag,
                expected=f"a backend for a model with {kind}",
                seen=name,
                where=option.where,
                fix=f"remove {option.name}: vLLM then chooses one that fits the model",
            )


def find_attention_backends(context: RuleContext) -> Iterator[tuple[VllmOption, str]]:
    """Yield the options that choose an attention backend, with its name in capitals."""
    if option := context.option("attention-backend"):
        yield option, str(option.value).upper()
    if option := context.option("attention-config"):
        backend: Any = parse_json_object(option.value).get("backend")
        yield option, str(backend).upper()


RULES = (
    Rule(
        id="chunked_prefill",
        why="it cuts throughput to about a ninth",
        source="guide 7.1.3 for Qwen3.5-35B-A3B; 11 for SSM and MoE, where others' recipes have it",
        find=_check_chunked_prefill,
    ),
    Rule(
        id="fp8_cache",
        why="the output loops on the GB10",
        source="guide 7.1.3 for Qwen3.5-35B-A3B, 8 for Qwen3.5; not with 0.28.0 and "
        "Qwen3.5-122B-A10B-NVFP4, which NVIDIA measured so",
        find=_check_fp8_cache,
    ),
    Rule(
        id="marlin",
        why="with builds of spring 2026 the native FP4 kernel for MoE wrote NaN or !!!!! on sm_121",
        source="52-toks, the critical flags; guide 7.1.1 and 7.2.2 (which allows VLLM_CUTLASS too)"
        "; eugr/spark-vllm chooses by itself, as NVIDIA measured; RedHatAI's Qwen3.6-35B-A3B was "
        "measured on a Spark with flashinfer_cutlass in May 2026",
        find=_check_marlin,
    ),
    Rule(
        id="attention",
        why="Gemma 4 has heads of 256 and of 512, which only TRITON_ATTN takes",
        source="single-spark, bring-up; research 8",
        find=_check_attention_backend,
    ),
    Rule(
        id="attention_gpu",
        why="vLLM exits with 'compute capability not supported' after minutes of loading",
        source="vLLM's v1/attention/backends, supports_compute_capability, 0.32.0",
        find=_check_attention_gpu,
    ),
    Rule(
        id="attention_kind",
        why="vLLM exits with 'MLA not supported' or 'non-MLA not supported' while it starts",
        source="vLLM's v1/attention/backend.py, validate_configuration, 0.32.0",
        find=_check_attention_kind,
    ),
)
