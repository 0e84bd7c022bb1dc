"""The table of known failures: the message in a log, its cause and the fix.

An `id` names the failure. Its `source` is a public report of it, as ``owner/repository#issue`` or
``owner/repository PR#number`` on GitHub, or the program whose message it is.
"""

from __future__ import annotations

from sparkfleet.doctor.signatures import (
    executor,
    fabric,
    host,
    memory,
    model,
    options,
    toolchain,
    verbs,
    weights,
)
from sparkfleet.doctor.signatures.row import Clues, FailureRole, Signature

SIGNATURES: tuple[Signature, ...] = (
    *fabric.ROWS,
    *verbs.ROWS,
    *executor.ROWS,
    *memory.ROWS,
    *model.ROWS,
    *options.ROWS,
    *toolchain.ROWS,
    *weights.ROWS,
    *host.ROWS,
)

__all__ = ["SIGNATURES", "Clues", "FailureRole", "Signature"]
