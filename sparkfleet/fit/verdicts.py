"""Verdicts on the fit of a start, one for each node; pure."""

from __future__ import annotations

from collections.abc import Sequence

from sparkfleet.fit.memory import CLOSE, Fit, FitAnswer
from sparkfleet.fit.options import ServeOptions
from sparkfleet.model import Severity, Verdict
from sparkfleet.quantities import format_memory as gib
from sparkfleet.quantities import format_size
from sparkfleet.verdicts import build_verdict, info

SOURCE = "/proc/meminfo; config.json and tensors of the model"
SEVERITIES = {
    FitAnswer.FITS: Severity.OK,
    FitAnswer.CLOSE: Severity.WARNING,
    FitAnswer.UNKNOWN: Severity.INFO,
    FitAnswer.NOT: Severity.ERROR,
}


def build_fit_verdict(fit: Fit, options: ServeOptions, holders: Sequence[str] = ()) -> Verdict:
    """Return the verdict on one node; only what is sure not to fit refuses.

    `holders` name what else has memory of the GPU there.
    """
    return build_verdict(
        SEVERITIES[fit.answer],
        "memory.fit",
        fit.room.host,
        "memory",
        expected=_format_expected_memory(fit, options),
        seen=fit.sentence,
        source=SOURCE,
        fix=""
        if fit.answer in (FitAnswer.FITS, FitAnswer.UNKNOWN)
        else _suggest_memory_fix(fit, options, holders),
    )


def build_unknown_memory_verdict(host: str) -> Verdict:
    """Return the verdict on a node whose memory cannot be read."""
    return info(
        "memory.fit",
        host,
        "memory",
        expected="MemTotal and MemAvailable",
        seen="neither, so it is unknown whether the model fits",
        source="/proc/meminfo",
    )


def _format_expected_memory(fit: Fit, options: ServeOptions) -> str:
    if options.kv_bytes is not None:
        return f"room for the weights and {format_size(options.kv_bytes)} of KV cache"
    return f"room for util {options.util:g} of {gib(fit.room.total)}: {gib(fit.claim.low)}"


def _suggest_memory_fix(fit: Fit, options: ServeOptions, holders: Sequence[str]) -> str:
    if fit.fix:
        return fit.fix
    held = f"; memory is held by {', '.join(holders)}" if holders else ""
    if options.kv_bytes is not None:
        return f"lower kv-cache-memory-bytes or max-model-len{held}"
    if fit.claim.low > fit.room.free:
        return (
            f"set gpu-memory-utilization: {fit.room.util():.2f}, the highest value that fits{held}"
        )
    left = CLOSE + fit.room.guard
    if fit.answer is FitAnswer.CLOSE and fit.spare.low < left:
        return f"set gpu-memory-utilization: {fit.room.util(left):.2f}, which leaves enough{held}"
    if fit.longest and fit.longest.low >= 1:
        return f"set max-model-len: {fit.longest.low:.0f}, which fits; or use more Sparks: --tp"
    return f"use more Sparks: --tp {options.tp * 2}; or a smaller checkpoint{held}"
