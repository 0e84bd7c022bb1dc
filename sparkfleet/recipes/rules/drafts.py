"""Guessing tokens ahead: MTP and DFlash."""

from __future__ import annotations

from collections.abc import Iterator

from sparkfleet.model import Severity
from sparkfleet.recipes.rules.releases import parsed
from sparkfleet.recipes.rules.rule import Finding, Rule
from sparkfleet.recipes.rules.subject import Subject

MTP_MOST = 3  # guide 13.5: 1 to 3 with heads of the checkpoint
PAIRED_MOST = 4  # single-spark: measured with a draft model of its own
DFLASH_LEAST = "0.21.0"


def _method(subject: Subject) -> str:
    """Return the method; AEON-7's image takes DFlash from its environment (guide 13.3)."""
    if subject.draft:
        return str(subject.draft.get("method", "")).lower()
    return "dflash" if subject.environment.get("DFLASH_DRAFTER") else ""


def _dflash_keeps_bf16(subject: Subject) -> Iterator[Finding]:
    if _method(subject) != "dflash":
        return
    of_image = str(subject.environment.get("KV_CACHE_DTYPE") or "").lower()
    for name, dtype in (
        ("kv-cache-dtype", subject.value("kv-cache-dtype")),
        ("KV_CACHE_DTYPE", of_image),
    ):
        if dtype.startswith("fp8"):
            yield Finding(
                subject=name if name.isupper() else f"--{name}",
                expected="left out: DFlash keeps its KV cache in BF16",
                seen=dtype,
                where=subject.at(name),
                fix=f"take {name} out",
            )


def _draft_needs_fp8(subject: Subject) -> Iterator[Finding]:
    model = str(subject.draft.get("model") or "")
    dtype = subject.value("kv-cache-dtype")
    bundled = model.rstrip("/").rpartition("/")[2] == "assistant"
    wrong = "nvfp4" in dtype or (bundled and not dtype.startswith("fp8"))
    if _method(subject) == "mtp" and model and wrong:
        yield Finding(
            subject="--kv-cache-dtype",
            expected=f"fp8, for the draft model {model}",
            seen=dtype or "not given",
            where=subject.at("kv-cache-dtype", "speculative-config"),
            fix="write in vllm_args: kv-cache-dtype: fp8",
        )


def _dflash_is_new(subject: Subject) -> Iterator[Finding]:
    version, least = parsed(subject.version), parsed(DFLASH_LEAST)
    if _method(subject) == "dflash" and version and least and version < least:
        yield Finding(
            subject="DFlash",
            expected=f"vLLM {DFLASH_LEAST} or later",
            seen=f"{subject.version} {subject.version_source}",
            where=subject.at("engine_image", "speculative-config"),
            fix="take vllm/vllm-openai:nightly, or an image that is made for DFlash",
        )


def _few_tokens(subject: Subject) -> Iterator[Finding]:
    count = subject.draft.get("num_speculative_tokens")
    most = PAIRED_MOST if subject.draft.get("model") else MTP_MOST
    if _method(subject) == "mtp" and isinstance(count, int) and count > most:
        yield Finding(
            subject="num_speculative_tokens",
            expected=f"{most} at most with MTP",
            seen=str(count),
            where=subject.at("speculative-config"),
            fix="try 1 to 3, and watch the acceptance: spec_decode in /metrics of the endpoint",
            severity=Severity.WARNING,
        )


RULES = (
    Rule(
        id="dflash_kv",
        why="DFlash does not work over an FP8 KV cache",
        source="guide 13.1 and 13.6",
        find=_dflash_keeps_bf16,
    ),
    Rule(
        id="draft_kv",
        why="an NVFP4 KV cache breaks the draft model",
        source="guide 7.2.3 and 13.6",
        find=_draft_needs_fp8,
    ),
    Rule(
        id="dflash_version",
        why="older vLLM does not know DFlash; NGC 26.04 has 0.19.0",
        source="guide 13.1, 13.4 and 13.6",
        find=_dflash_is_new,
    ),
    Rule(
        id="mtp_tokens",
        why="every further token costs a pass of verification",
        source="guide 13.5; single-spark measured 4 with a draft model",
        find=_few_tokens,
    ),
)
