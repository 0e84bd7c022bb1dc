"""A change of this host's network that is tried first, and its way back.

While it is tried, its files are in ``/run`` only, next to `PENDING`: a boot forgets both. When it
is confirmed, they are written to ``/etc``, and `SAVED` keeps what was there before the first one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sparkfleet.onhost.shared.rail_state import read_rail_state, run_network_tool, wait_for_rails
from sparkfleet.onhost.shared.reading import load_json_object, read_optional_text

FOLDER = Path("/run/sparkfleet-links")
PENDING = FOLDER / "pending.json"
OUTCOME = FOLDER / "outcome.json"  # of the last change: its id, and why it was undone
SAVED = Path("/var/lib/sparkfleet/links.json")
APPLIED = SAVED.with_name("links-applied.json")  # what was kept last; any user may read it
APPLYING = 15.0  # seconds for the services to set addresses and MTU
UNDOING = 10.0  # seconds
SHADOWED = "network:\n  version: 2\n"  # hides a file of netplan's in /etc
MODE = 0o600


@contextlib.contextmanager
def hold_change_lock() -> Iterator[None]:
    """Keep every other change of this host's network away."""
    FOLDER.mkdir(mode=0o700, exist_ok=True)
    handle = os.open(FOLDER / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)  # also for a fork that has it open
        os.close(handle)


def load_pending() -> dict[str, Any]:
    """Return the change that is tried; empty if there is none."""
    return load_json_object(read_optional_text(PENDING))


def write_file(path: Path, text: str, mode: int = MODE) -> None:
    """Write a file whole or not at all, and onto the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")  # no name that a service reads
    with contextlib.suppress(FileNotFoundError):
        new.unlink()
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        os.fchmod(file.fileno(), mode)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    handle = os.open(path.parent, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def remove_file(path: Path) -> None:
    """Remove a file that may not exist."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


def read_sysctls(names: list[str]) -> dict[str, str]:
    """Return the values of sysctls that this kernel has."""
    values = {}
    for name in names:
        text = read_optional_text(Path("/proc/sys") / name.replace(".", "/"))
        if text is not None:
            values[name] = text.strip()
    return values


def write_sysctls(values: dict[str, str]) -> None:
    """Set sysctls."""
    for name, value in values.items():
        (Path("/proc/sys") / name.replace(".", "/")).write_text(value)


def prepare_change(request: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a change: its request, and what is to be restored."""
    return {
        **request,
        "before": read_rail_state(list(request["rails"])),
        "before_sysctls": read_sysctls(list(request["sysctls"])),
    }


def try_change(change: dict[str, Any]) -> str:
    """Put a change into effect, in ``/run`` only; return why it did not work, "" if it did."""
    for file in change["files"]:
        text = file["after"]
        write_file(Path(file["staged"]), SHADOWED if text is None else text)
    write_sysctls(change["sysctls"])
    for argv in change["apply"]:
        failed = run_network_tool(argv)
        if failed:
            return failed
    left = wait_for_rails(change["rails"], APPLYING, force=False)
    return "; ".join(left)


def undo_change(change: dict[str, Any], why: str) -> list[str]:
    """Restore what was before a change that was tried; return what differs even then."""
    for file in change["files"]:
        remove_file(Path(file["staged"]))
    for argv in change["undo"]:
        run_network_tool(argv)
    write_sysctls(change["before_sysctls"])
    left = wait_for_rails(change["before"], UNDOING, force=True)
    write_file(OUTCOME, json.dumps({"id": change["id"], "why": why, "left": left}))
    remove_file(PENDING)
    return left


def keep_change(change: dict[str, Any]) -> None:
    """Write the files of a change to ``/etc``, and keep those of before."""
    saved = load_json_object(read_optional_text(SAVED)) or {"files": {}, "rails": {}, "sysctls": {}}
    for file in change["files"]:
        path = Path(file["path"])
        if file["path"] not in saved["files"]:
            saved["files"][file["path"]] = describe_file(path)
    saved["rails"] = {**change["before"], **saved["rails"]}
    saved["sysctls"] = {**change["before_sysctls"], **saved["sysctls"]}
    saved["undo"] = [
        *(argv for argv in change["undo"] if argv not in saved.get("undo", [])),
        *saved.get("undo", []),
    ]
    write_file(SAVED, json.dumps(saved))
    for file in sorted(change["files"], key=lambda file: file["after"] is None):
        install_file(Path(file["path"]), file["after"])
        remove_file(Path(file["staged"]))
    record_applied(change)
    remove_file(PENDING)
    for argv in change["keep"]:
        run_network_tool(argv)


def record_applied(change: dict[str, Any]) -> None:
    """Record the files and rails of a kept change, with those of earlier ones."""
    applied = load_json_object(read_optional_text(APPLIED)) or {"files": {}, "rails": {}}
    for file in change["files"]:
        applied["files"][file["path"]] = stat_file(Path(file["path"]))
    applied["rails"].update(change["rails"])
    write_file(APPLIED, json.dumps(applied), 0o644)


def stat_file(path: Path) -> list[int] | None:
    """Return size and time (ns) of a file, which show a change of one that only root reads."""
    try:
        status = path.stat()
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns]


def describe_file(path: Path) -> dict[str, Any] | None:
    """Return the text and mode of a file, None if it does not exist."""
    text = read_optional_text(path)
    return None if text is None else {"text": text, "mode": stat.S_IMODE(path.stat().st_mode)}


def install_file(path: Path, text: str | None, mode: int | None = None) -> None:
    """Write a file with its mode of before, or remove it."""
    if text is None:
        remove_file(path)
        return
    if mode is None:
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else MODE
    write_file(path, text, mode)


def restore_saved(saved: dict[str, Any]) -> list[str]:
    """Restore files, addresses, MTUs and sysctls of before; return what differs even then."""
    for name, file in saved["files"].items():
        install_file(Path(name), file and file["text"], file and file["mode"])
    for argv in saved["undo"]:
        run_network_tool(argv)
    write_sysctls(saved["sysctls"])
    left = wait_for_rails(saved["rails"], UNDOING, force=True)
    remove_file(SAVED)
    remove_file(APPLIED)
    return left
