"""Guessing tokens ahead: MTP and DFlash."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.version import Version

from sparkfleet.model import Severity
from sparkfleet.recipes.rules.bounds import read_count
from sparkfleet.recipes.rules.models import is_model
from sparkfleet.recipes.rules.rule import Rule, RuleFinding
from sparkfleet.recipes.rules.rule_context import RuleContext
from sparkfleet.vllm.releases import parse_version

# Starts that NVIDIA publishes against the general rules, of September 2026:
# NVIDIA/local-ai-inference-recipes at dedcf6bc.
DFLASH_OVER_FP8 = re.compile(r"qwen3\.8-27b")  # with vLLM 0.28.0, measured on one Spark and on two
MTP_OF_MODEL = (  # the most tokens
    (re.compile(r"qwen3\.6-27b"), 5),  # measured on one Spark and on two
    (re.compile(r"qwen3\.8-flash-next"), 4),
    (re.compile(r"glm-5\.3-flash"), 5),
)
# The draft of Laguna S 2.1 needs it: discussion 9 of poolside/Laguna-S-2.1-DFlash on the Hub.
DFLASH_NEEDS_FP8 = re.compile(r"laguna-s-2\.1")
# The mods of eugr/spark-vllm-docker at 4909701 and 86688d72 make it so, measured on two Sparks.
DFLASH_MADE_FOR_FP8 = re.compile(r"mimo-v2\.6")
PARALLEL = ("dflash", "dspark")  # they draft all tokens of a step at once
ROOM_FROM, ROOM_UNTIL = Version("0.25.1"), Version("0.27.1")
BATCHED_LEAST = 2048  # of vLLM's defaults, as is the number of requests
REQUESTS_LEAST = 256
BLOCK_FROM, BLOCK_UNTIL = Version("0.26.0"), Version("0.27.1")
MTP_MOST = 3  # guide 13.5: 1 to 3 with heads of the checkpoint
PAIRED_MOST = 4  # single-spark: measured with a draft model of its own
DFLASH_LEAST = Version("0.21.0")


def _find_draft_method(context: RuleContext) -> str:
    """Return the method; AEON-7's image takes DFlash from its environment (guide 13.3)."""
    if context.draft:
        return str(context.draft.get("method", "")).lower()
    return "dflash" if context.environment.get("DFLASH_DRAFTER") else ""


def _check_dflash_kv_dtype(context: RuleContext) -> Iterator[RuleFinding]:
    kinds = (DFLASH_OVER_FP8, DFLASH_NEEDS_FP8, DFLASH_MADE_FOR_FP8)
    allowed = any(is_model(context, kind) for kind in kinds)
    if _find_draft_method(context) != "dflash" or allowed:
        return
    of_image = str(context.environment.get("KV_CACHE_DTYPE") or "").lower()
    for name, dtype in (
        ("kv-cache-dtype", context.value("kv-cache-dtype")),
        ("KV_CACHE_DTYPE", of_image),
    ):
        if dtype.startswith("fp8"):
            yield RuleFinding(
                subject=name if name.isupper() else f"--{name}",
                expected="unset: DFlash keeps its KV cache in BF16",
                seen=dtype,
                where=context.at(name),
                fix=f"remove {name}",
            )


def _check_draft_kv_dtype(context: RuleContext) -> Iterator[RuleFinding]:
    model = str(context.draft.get("model") or "")
    dtype = context.value("kv-cache-dtype")
    bundled = model.rstrip("/").rpartition("/")[2] == "assistant"
    wrong = "nvfp4" in dtype or (bundled and not dtype.startswith("fp8"))
    if _find_draft_method(context) == "mtp" and model and wrong:
        yield RuleFinding(
            subject="--kv-cache-dtype",
            expected=f"fp8, for the draft model {model}",
            seen=dtype or "unset",
            where=context.at("kv-cache-dtype", "speculative-config"),
            fix="write in vllm_args: kv-cache-dtype: fp8",
        )


def _check_dflash_version(context: RuleContext) -> Iterator[RuleFinding]:
    version = parse_version(context.version)
    if _find_draft_method(context) == "dflash" and version and version < DFLASH_LEAST:
        yield RuleFinding(
            subject="DFlash",
            expected=f"vLLM {DFLASH_LEAST} or later",
            seen=f"{context.version} {context.version_source}",
            where=context.at("engine_image", "speculative-config"),
            fix="use vllm/vllm-openai:nightly, or an image made for DFlash",
        )


def _check_draft_tokens(context: RuleContext) -> Iterator[RuleFinding]:
    count = context.draft.get("num_speculative_tokens")
    most = _find_most_tokens(context)
    if _find_draft_method(context) == "mtp" and isinstance(count, int) and count > most:
        yield RuleFinding(
            subject="num_speculative_tokens",
            expected=f"{most} at most with MTP",
            seen=str(count),
            where=context.at("speculative-config"),
            fix="try 1 to 3, and watch the acceptance: spec_decode in /metrics of the endpoint",
            severity=Severity.WARNING,
        )


def _check_draft_room(context: RuleContext) -> Iterator[RuleFinding]:
    """Compare as _set_max_num_scheduled_tokens did: each request takes slots of the batch."""
    tokens, version = context.draft.get("num_speculative_tokens"), parse_version(context.version)
    if _find_draft_method(context) not in PARALLEL or type(tokens) is not int or version is None:
        return
    if not ROOM_FROM <= version <= ROOM_UNTIL:
        return
    batch = read_count(context.option("max-num-batched-tokens"))
    requests = read_count(context.option("max-num-seqs")) or REQUESTS_LEAST
    needed = (tokens - 1) * requests
    if (batch or BATCHED_LEAST) <= needed:
        yield RuleFinding(
            subject="num_speculative_tokens",
            expected=f"max-num-batched-tokens above {needed}: {tokens - 1} for each of {requests} "
            "requests",
            seen=str(batch) if batch else "unset",
            where=context.at("max-num-batched-tokens", "speculative-config"),
            fix="raise max-num-batched-tokens, or lower max-num-seqs",
            severity=Severity.ERROR if batch else Severity.WARNING,
        )


def _check_draft_block(context: RuleContext) -> Iterator[RuleFinding]:
    tokens, block = (
        context.draft.get("num_speculative_tokens"),
        context.facts.checkpoint.draft_block,
    )
    version = parse_version(context.version)
    known = version is not None and BLOCK_FROM <= version <= BLOCK_UNTIL
    if _find_draft_method(context) != "dspark" or type(tokens) is not int or not block:
        return
    if known and tokens < block:
        yield RuleFinding(
            subject="num_speculative_tokens",
            expected=f"{block} or more, as dspark_block_size in config.json",
            seen=str(tokens),
            where=context.at("speculative-config"),
            fix=f"write num_speculative_tokens: {block}",
        )


def _find_most_tokens(context: RuleContext) -> int:
    general = PAIRED_MOST if context.draft.get("model") else MTP_MOST
    published = (most for pattern, most in MTP_OF_MODEL if is_model(context, pattern))
    return next(published, general)


RULES = (
    Rule(
        id="dflash_kv",
        why="DFlash does not work over an FP8 KV cache",
        source="guide 13.1 and 13.6; NVIDIA serves Qwen3.8-27B so, Laguna S 2.1 needs it, and mods "
        "of eugr/spark-vllm-docker make it work for MiMo V2.6",
        find=_check_dflash_kv_dtype,
    ),
    Rule(
        id="draft_kv",
        why="an NVFP4 KV cache breaks the draft model",
        source="guide 7.2.3 and 13.6",
        find=_check_draft_kv_dtype,
    ),
    Rule(
        id="dflash_version",
        why="older vLLM does not know DFlash; NGC 26.04 has 0.19.0",
        source="guide 13.1, 13.4 and 13.6",
        find=_check_dflash_version,
    ),
    Rule(
        id="mtp_tokens",
        why="every further token costs a pass of verification",
        source="guide 13.5; single-spark measured 4 with a draft model; NVIDIA's counts for "
        "Qwen3.6-27B, Qwen3.8-Flash-Next and GLM-5.3-Flash",
        find=_check_draft_tokens,
    ),
    Rule(
        id="draft_room",
        why="vLLM exits when it reads its options: max_num_scheduled_tokens is below 1",
        source="vLLM's config/vllm.py, _set_max_num_scheduled_tokens, 0.25 to 0.27; "
        "vllm-project/vllm#50708",
        find=_check_draft_room,
    ),
    Rule(
        id="draft_block",
        why="vLLM exits when it reads the draft: DSpark drafts whole blocks",
        source="vLLM's config/speculative.py, 0.26 and 0.27; vllm-project/vllm#50012",
        find=_check_draft_block,
    ),
)
