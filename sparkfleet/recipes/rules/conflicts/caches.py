"""Attention backends and KV cache types that do not go together, on a GB10.

A GB10 has compute capability 12.1, where FlashAttention is its version 2: no FP8 cache, no sinks,
heads up to 256. What differs from release to release was read in 0.10.2 to 0.32.0.
"""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

from sparkfleet.model import Severity
from sparkfleet.recipes.rules.images import COMMUNITY, FORK_OPTIONS
from sparkfleet.recipes.rules.kernels import find_attention_backends
from sparkfleet.recipes.rules.rule import Rule, RuleFinding
from sparkfleet.recipes.rules.rule_context import RuleContext
from sparkfleet.vllm.options import parse_json_object
from sparkfleet.vllm.releases import parse_version

LATENT_ONLY = ("fp8_ds_mla", "nvfp4_ds_mla")
TURBO = "turboquant_"
PER_HEAD = "_per_token_head"
SMALL_HEADS_UNTIL = Version("0.21.0")  # of FlashInfer: up to 256, later 512
NO_SINKS_UNTIL = Version("0.27.1")  # of FlashInfer on compute capability 12
LATENT_FP8_SINCE = Version("0.18.0")  # of TRITON_MLA
LATENT_FP8_KNOWN = Version("0.11.2")
SPARSE_SINCE = Version("0.24.0")  # FLASHINFER_MLA_SPARSE_SM120
NVFP4_SINCE = Version("0.32.0")  # of FlashInfer without the kernels of data centers


def _find_cache_problem(backend: str, dtype: str) -> str:
    """Return why a backend cannot have a KV cache type; "" where it can, or that is not known."""
    if dtype.startswith(TURBO):
        return "" if backend == "TURBOQUANT" else "TURBOQUANT, for this kv-cache-dtype"
    if dtype.endswith(PER_HEAD):
        return "" if backend == "TRITON_ATTN" else "TRITON_ATTN, for this kv-cache-dtype"
    if backend == "FLASH_ATTN" and dtype.startswith(("fp8", "nvfp4")):
        return f"FLASHINFER or TRITON_ATTN, for a cache of {dtype}"
    if backend in ("TRITON_ATTN", "FLEX_ATTENTION") and dtype.startswith("nvfp4"):
        return f"FLASHINFER, for a cache of {dtype}"
    if backend == "FLEX_ATTENTION" and dtype.startswith("fp8"):
        return f"FLASHINFER or TRITON_ATTN, for a cache of {dtype}"
    return ""


def _find_head_problem(backend: str, context: RuleContext) -> str:
    """Return why a backend cannot compute the model's heads; "" where it can."""
    facts = context.facts.checkpoint
    version = parse_version(context.version)
    large = version is None or version > SMALL_HEADS_UNTIL
    allowed = {"FLASHINFER": (64, 128, 256, 512) if large else (64, 128, 256)}.get(backend)
    for size in facts.head_sizes:
        fits = size in allowed if allowed else backend != "FLASH_ATTN" or size <= 256
        if not fits or (backend == "FLASH_ATTN" and size % 8):
            return f"a backend for heads of {size}"
    sinks = facts.model_type == "gpt_oss"
    old = version is not None and version <= NO_SINKS_UNTIL
    if sinks and (backend == "FLASH_ATTN" or (backend == "FLASHINFER" and old)):
        return "TRITON_ATTN: the model has attention sinks"
    return ""


def _check_attention_fit(context: RuleContext) -> Iterator[RuleFinding]:
    if context.facts.latent or context.image.repository in (COMMUNITY, *FORK_OPTIONS):
        return
    dtype = context.value("kv-cache-dtype")
    config = context.option("attention-config")
    version_set = parse_json_object(config.value if config else None).get("flash_attn_version")
    for option, backend in find_attention_backends(context):
        problem = _find_cache_problem(backend, dtype) or _find_head_problem(backend, context)
        if problem and backend not in ("NONE", "AUTO") and not version_set:
            yield RuleFinding(
                subject=option.flag,
                expected=problem,
                seen=backend,
                where=option.where,
                fix=f"remove {option.name}: vLLM then chooses one that fits",
                severity=Severity.ERROR if context.version else Severity.WARNING,
            )


def _check_cache_kind(context: RuleContext) -> Iterator[RuleFinding]:
    option = context.option("kv-cache-dtype")
    latent = context.facts.latent
    dtype = context.value("kv-cache-dtype")
    if option is None:
        return
    if dtype in LATENT_ONLY and latent is False:
        problem = "unset, for a model without multi-head latent attention (MLA)"
    elif dtype.startswith((TURBO, "nvfp4")) and dtype not in LATENT_ONLY and latent:
        problem = "fp8 or auto, for a model with multi-head latent attention (MLA)"
    else:
        return
    yield RuleFinding(
        subject=option.flag,
        expected=problem,
        seen=dtype,
        where=option.where,
        fix="remove kv-cache-dtype from vllm_args",
    )


def _check_cache_gpu(context: RuleContext) -> Iterator[RuleFinding]:
    """Warn of caches that older releases have no kernel for on compute capability 12."""
    option = context.option("kv-cache-dtype")
    version = parse_version(context.version)
    if version is None or context.image.repository in (COMMUNITY, *FORK_OPTIONS):
        return
    dtype = context.value("kv-cache-dtype")
    latent_fp8 = context.facts.latent and dtype.startswith("fp8")
    if option is not None and dtype == "nvfp4" and version < NVFP4_SINCE:
        expected, since = "fp8, or unset", NVFP4_SINCE
    elif option is not None and latent_fp8 and LATENT_FP8_KNOWN <= version < LATENT_FP8_SINCE:
        expected, since = "unset, for multi-head latent attention", LATENT_FP8_SINCE
    elif context.facts.checkpoint.sparse and version < SPARSE_SINCE:
        option = None
        expected, since = "a vLLM with sparse attention for a GB10", SPARSE_SINCE
    else:
        return
    yield RuleFinding(
        subject=option.flag if option else "vLLM",
        expected=f"{expected}: the GB10's kernels for it came with {since}",
        seen=dtype if option else f"{context.version} {context.version_source}",
        where=context.at("kv-cache-dtype" if option else "engine_image", "vllm_model"),
        fix="remove kv-cache-dtype" if option else "use another image (engine_image)",
        severity=Severity.WARNING,
    )


RULES = (
    Rule(
        id="attention_fit",
        why="vLLM exits with 'Selected backend ... is not valid for this configuration'",
        source="vLLM's v1/attention/backends, validate_configuration, 0.11 to 0.32; "
        "vllm-project/vllm#40153, vllm-project/vllm#40677, vllm-project/vllm#40094",
        find=_check_attention_fit,
    ),
    Rule(
        id="cache_kind",
        why="vLLM exits with 'No valid attention backend found', or refuses the cache for MLA",
        source="vLLM's v1/attention/backends and config/vllm.py, 0.11 to 0.32; "
        "vllm-project/vllm#42587",
        find=_check_cache_kind,
    ),
    Rule(
        id="cache_gpu",
        why="vLLM stops while it starts, or at the first request: no kernel of that release runs "
        "on a GB10",
        source="vLLM's v1/attention/backends, 0.11 to 0.32; vllm-project/vllm#43562, "
        "vllm-project/vllm#32732, eugr/spark-vllm-docker#67",
        find=_check_cache_gpu,
    ),
)
