"""The table of known failures: what a log says, why, and what to type.

An id names its source: `F12` is failure 12 of ``facts/dgx-spark.md`` section 4, `C32` a case of
``cases/cases.md``, `S4` one of the five seeds, `L` the lab's recorded logs, `V` a message of vLLM,
Ray, PyTorch or huggingface_hub itself; a word behind it tells rows of one source apart.
"""

from __future__ import annotations

from sparkfleet.doctor.signatures import (
    executor,
    fabric,
    host,
    memory,
    model,
    options,
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
    *weights.ROWS,
    *host.ROWS,
)

__all__ = ["SIGNATURES", "Clues", "FailureRole", "Signature"]
