"""The record of the last start of a deployment, and the processes it can still refer to.

A file that is cut or of another shape counts as none: it must not keep a deployment from being
stopped, whose processes and containers carry a label.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparkfleet.onhost.shared.labels import DEPLOYMENT_RECORD
from sparkfleet.onhost.shared.reading import load_json_object, read_optional_text

ROLE = {"pid": int, "began": int, "script": str}
TEXTS = ("hash", "cli", "boot")


def read_deployment_record(folder: Path) -> dict[str, Any] | None:
    """Return the record of the last start, or None."""
    try:
        record = load_json_object(read_optional_text(folder / DEPLOYMENT_RECORD))
    except IsADirectoryError:
        return None
    return record if is_deployment_record(record) else None


def is_deployment_record(record: dict[str, Any]) -> bool:
    """Return whether `record` has the shape of one."""
    roles = record.get("roles")
    texts = all(isinstance(record.get(name), (str, type(None))) for name in TEXTS)
    about = isinstance(record.get("about"), (dict, type(None)))
    if not isinstance(roles, dict) or "hash" not in record:
        return False
    return texts and about and all(map(is_role, roles.values()))


def is_role(role: Any) -> bool:
    """Return whether `role` says which process runs it."""
    return isinstance(role, dict) and all(
        isinstance(role.get(name), kind) for name, kind in ROLE.items()
    )


def list_boot_roles(record: dict[str, Any] | None) -> dict[str, dict[str, Any]]:
    """Return the roles that were started since this host booted, by name.

    PIDs and start times begin anew at a boot: of an earlier one they name other processes.
    """
    if not record or record.get("boot") != read_boot_id():
        return {}
    return dict(record["roles"])


def read_boot_id() -> str:
    """Return the id of this boot of the host."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
