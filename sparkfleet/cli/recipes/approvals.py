"""Approvals of third-party code: a start asks once about the same code.

An approval is that of one user of one machine: it is never part of a project. It holds for exactly
what was shown: another byte of a mod, another right or another commit of a shelf is asked about.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from sparkfleet.report.log import locate_state_folder, make_state_folder
from sparkfleet.values import parse_json

FILE = "approvals.json"
MAX_KEPT = 500  # approvals that are kept


def locate_approvals() -> Path:
    """Return the file of the approvals; without it everything is asked about again."""
    return locate_state_folder() / FILE


def compute_digest(parts: Iterable[bytes]) -> str:
    """Return the SHA-256 of what is approved; each part counts with its length."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:".encode())
        digest.update(part)
    return digest.hexdigest()


def find_approval(digest: str) -> str | None:
    """Return the day on which this was approved, as YYYY-MM-DD; None where it was not."""
    approval = _read_approvals().get(digest)
    return None if approval is None else str(approval.get("date", ""))


def remember_approval(digest: str, subject: str) -> bool:
    """Keep an approval; return whether it could be kept.

    A start that was confirmed does not fail because the file cannot be written.
    """
    path = locate_approvals()
    today = datetime.now(UTC).date().isoformat()
    approvals = {**_read_approvals(), digest: {"date": today, "subject": subject}}
    kept = dict(list(approvals.items())[-MAX_KEPT:])
    new = path.with_suffix(".new")
    try:
        make_state_folder()
        new.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        new.replace(path)
    except OSError:
        return False
    return True


def _read_approvals() -> dict[str, dict[str, str]]:
    """Return the approvals; none where the file is missing or damaged."""
    try:
        content = parse_json(locate_approvals().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(content, dict):
        return {}
    return {key: value for key, value in content.items() if isinstance(value, dict)}
