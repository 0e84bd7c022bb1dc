"""The counts at the end of a run, as Ansible gives them."""

from __future__ import annotations

from collections.abc import Mapping

from sparkfleet.model import Status

ORDER = (Status.CHANGED, Status.UNREACHABLE, Status.FAILED, Status.SKIPPED, Status.RESCUED)


def count_recap(counts: Mapping[Status, int]) -> dict[str, int]:
    """Return Ansible's numbers of one host: its `ok` counts what was changed, too."""
    fine = counts.get(Status.OK, 0) + counts.get(Status.CHANGED, 0)
    return {"ok": fine, **{str(status): counts.get(status, 0) for status in ORDER}}
