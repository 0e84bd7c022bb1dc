"""Put files that are on this host in their place, list the models, take away what is ours.

Request: ``root`` (the weights folder; ``~`` is this user's home) and ``do``:

``place``: ``items`` (the ``path`` that the engine reads, the ``blob`` where its bytes shall live,
``have``: the file that has them) and ``texts`` (small files, path -> text). ``list``: nothing.
``remove``: the ``folder`` of a model, of which the files go that runs of ours brought.

All paths count from the root. Every step is one rename, so that a kill leaves nothing half done.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PARTIAL = ".incomplete"
FOLDER = ".sparkfleet"


class RefusedError(Exception):
    """What is wrong, and what the user can do about it."""


def lock(root: Path) -> int:
    """Keep every other writer away from `root` until this program ends."""
    folder = root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    held = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        problem = f"another run is bringing weights into {root}"
        raise RefusedError(problem, "wait for it; what it brings is not sent again") from None
    return held


def place(root: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Publish bytes that are here already: by a hard link where that can be, else by a copy."""
    placed = [item["path"] for item in request["items"] if _place(root, item)]
    for name, text in request["texts"].items():
        partial = _beside(root / name)
        partial.write_text(text)
        partial.replace(root / name)
    return {"placed": placed, "texts": list(request["texts"])}


def _place(root: Path, item: dict[str, Any]) -> bool:
    path, blob, have = (root / item[name] for name in ("path", "blob", "have"))
    if not have.exists():
        return False
    if have != blob:
        partial = _beside(blob)
        partial.unlink(missing_ok=True)
        try:
            os.link(have, partial)
        except OSError:  # another filesystem, or another user's file
            shutil.copyfile(have, partial)
        partial.replace(blob)
        record(root, blob, item["hash"])
    if path != blob:
        link = _beside(path)
        link.unlink(missing_ok=True)
        link.symlink_to(os.path.relpath(blob, path.parent))
        link.replace(path)
    return True


def record(root: Path, blob: Path, known: str) -> None:
    """Tell the ledger that a run of ours brought `blob`."""
    found = blob.stat()
    name = os.path.relpath(blob.resolve(), root.resolve())
    row = [name, found.st_size, found.st_mtime_ns, found.st_ino, known, "brought"]
    with (root / FOLDER / "ledger.jsonl").open("a") as ledger:
        ledger.write(json.dumps(row) + "\n")


def _beside(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.with_name(path.name + PARTIAL)


def models(root: Path) -> Iterator[dict[str, Any]]:
    """Yield each model below `root`: those of the hub cache, and folders with a config.json."""
    folders = [*root.glob("hub/models--*"), *(path.parent for path in root.glob("*/config.json"))]
    for folder in sorted(folders):
        files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
        snapshots = folder / "snapshots"
        yield {
            "folder": os.path.relpath(folder, root),
            "bytes": sum(path.stat().st_size for path in files),
            "files": len(files),
            "partial": sum(path.name.endswith(PARTIAL) for path in files),
            "commits": sorted(path.name for path in snapshots.glob("*")),
            "staged": (root / FOLDER / "manifests" / f"{folder.name}.json").exists(),
        }


def remove(root: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Remove what runs of ours brought into a folder; leave and name all else."""
    ours, removed, left, freed = brought(root), 0, [], 0
    for parent, _, names in os.walk(root / request["folder"], topdown=False):
        for path in (Path(parent, name) for name in names):
            name = os.path.relpath(path, root)
            found = path.lstat()
            if name in ours or path.is_symlink() or path.parent.name == "refs":
                path.unlink()
                removed += 1
                freed += found.st_size if found.st_nlink == 1 else 0
            else:
                left.append(name)
        with contextlib.suppress(OSError):  # what is left keeps its folder
            Path(parent).rmdir()
    return {"removed": removed, "freed": freed, "left": left}


def brought(root: Path) -> set[str]:
    """Return the files that the ledger marks as brought by a run of ours."""
    rows: dict[str, bool] = {}
    ledger = root / FOLDER / "ledger.jsonl"
    for line in ledger.read_text(errors="replace").splitlines() if ledger.exists() else ():
        with contextlib.suppress(ValueError):  # a run that was killed leaves half a line
            name, *row = json.loads(line)
            rows[name] = "brought" in row
    return {name for name, ours in rows.items() if ours}


def main() -> dict[str, Any]:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.buffer.readline())
    root = Path(request["root"]).expanduser()
    try:
        if request["do"] == "list":
            return {"root": str(root), "models": list(models(root))}
        held = lock(root)
        answer = place(root, request) if request["do"] == "place" else remove(root, request)
        os.close(held)
    except RefusedError as refusal:
        error, hint = refusal.args
        return {"error": error, "hint": hint}
    except OSError as error:
        hint = "look at that path; then run again"
        if error.errno in (errno.EACCES, errno.EPERM):
            hint = f"give it to this user: sudo chown -R {os.getuid()} {root}"
        return {"error": f"{error.filename or root}: {error.strerror}", "hint": hint}
    return answer


if __name__ == "__main__":
    print(json.dumps(main()))
