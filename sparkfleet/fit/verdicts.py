"""What a fit means for a start: one verdict a node; pure."""

from __future__ import annotations

from collections.abc import Sequence

from sparkfleet.fit.memory import CLOSE, Answer, Fit
from sparkfleet.fit.options import Start
from sparkfleet.model import Severity, Verdict
from sparkfleet.quantities import show_memory as gib
from sparkfleet.quantities import show_size

SOURCE = "/proc/meminfo; config.json and tensors of the model"
SEVERITIES = {
    Answer.FITS: Severity.OK,
    Answer.CLOSE: Severity.WARNING,
    Answer.UNKNOWN: Severity.INFO,
    Answer.NOT: Severity.ERROR,
}


def verdict(fit: Fit, start: Start, holders: Sequence[str] = ()) -> Verdict:
    """Return the verdict on one node; only what is sure not to fit refuses.

    `holders` name what else has memory of the GPU there.
    """
    return Verdict(
        check="memory.fit",
        severity=SEVERITIES[fit.answer],
        host=fit.room.host,
        subject="memory",
        expected=_expected(fit, start),
        seen=fit.sentence,
        source=SOURCE,
        fix="" if fit.answer in (Answer.FITS, Answer.UNKNOWN) else _fix(fit, start, holders),
    )


def _expected(fit: Fit, start: Start) -> str:
    if start.kv_bytes is not None:
        return f"room for the weights and {show_size(start.kv_bytes)} of KV cache"
    return f"room for util {start.util:g} of {gib(fit.room.total)}: {gib(fit.claim.low)}"


def _fix(fit: Fit, start: Start, holders: Sequence[str]) -> str:
    held = f"; memory is held by {', '.join(holders)}" if holders else ""
    if start.kv_bytes is not None:
        return f"give less: kv-cache-memory-bytes, max-model-len{held}"
    if fit.claim.low > fit.room.free:
        return f"the highest that fits there is gpu-memory-utilization: {fit.room.util():.2f}{held}"
    left = CLOSE + fit.room.guard
    if fit.answer is Answer.CLOSE and fit.spare.low < left:
        return f"this leaves enough: gpu-memory-utilization: {fit.room.util(left):.2f}{held}"
    if fit.longest and fit.longest.low >= 1:
        return f"a context that fits: max-model-len: {fit.longest.low:.0f}; or more Sparks: --tp"
    return f"more Sparks: --tp {start.tp * 2}; or a smaller checkpoint{held}"
