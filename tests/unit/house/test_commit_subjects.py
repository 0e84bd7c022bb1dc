"""The hook that checks the subject of a commit."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

HOOK = Path(__file__).parents[3] / ".ci/hooks/commit-msg"


def run_hook(tmp_path: Path, message: str) -> subprocess.CompletedProcess[str]:
    """Run the hook as Git does: with the file that holds the message."""
    file = tmp_path / "COMMIT_EDITMSG"
    file.write_text(message)
    return subprocess.run([HOOK, file], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "message",
    [
        "Fix the order of two tasks\n\nIt was wrong.\n",
        "\n# a comment of Git\nSpeed up the reader of logs\n",
        "Add " + 68 * "x",
        "Merge branch 'rails'\n",
        "fixup! Fix the order of two tasks\n",
    ],
)
def test_a_subject_in_the_imperative_is_accepted(tmp_path: Path, message: str) -> None:
    assert (run_hook(tmp_path, message).returncode, run_hook(tmp_path, message).stderr) == (0, "")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("Let the gate wait\n", "must start with one of Add, Check, "),
        ("Fixed the gate\n", "must start with one of"),
        ("Speed of the gate\n", "must start with one of"),
        ("Add\n", "must start with one of"),
        ("# only a comment\n", "must start with one of"),
        ("Add " + 69 * "x", "must have at most 72 characters (got 73)"),
        ("Fix the gate.\n", "must not end with a period"),
    ],
)
def test_another_subject_is_refused_with_the_reason(
    tmp_path: Path, message: str, reason: str
) -> None:
    result = run_hook(tmp_path, message)
    assert result.returncode == 1
    assert reason in result.stderr
