"""A failure that no signature knows still ends in what its logs say."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparkfleet.cli.doctor.after_failure import report_causes

KNOWN = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB\n"
UNKNOWN = "Traceback (most recent call last):\nZeroDivisionError: division by zero\n"


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (
            KNOWN,
            ["cause on a: The GPU's share of unified memory is exhausted. [cuda-out-of-memory]"],
        ),
        (UNKNOWN, ["no known cause; first error of a: a-serve.log:2: ZeroDivisionError"]),
        (KNOWN + UNKNOWN, ["cause on a: The GPU's share"]),
        ("all is well\n", []),
    ],
)
def test_a_cause_is_reported_or_else_the_first_error(
    tmp_path: Path, log: str, expected: list[str]
) -> None:
    (tmp_path / "run.log").touch()
    (tmp_path / "a-serve.log").write_text(log)
    notes: list[str] = []
    cluster = SimpleNamespace(hosts=(SimpleNamespace(name="a"),))
    scene: Any = SimpleNamespace(
        cluster=cluster,
        log_dir=tmp_path,
        state=SimpleNamespace(fabric=None),
        report=lambda note: notes.append(note.text),
    )
    report_causes(scene)
    assert len(notes) == len(expected)
    assert all(note.startswith(start) for note, start in zip(notes, expected, strict=True))
