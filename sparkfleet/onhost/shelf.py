"""List the models of this host, and take away what is ours.

Request: ``root`` (the weights folder; ``~`` is this user's home) and ``do``: ``list``, or
``remove`` with the ``folder`` of a model below the root, of which the files go that runs of ours
brought.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sparkfleet.onhost.parts.writing import FOLDER, answered, lock

PARTIAL = ".incomplete"
KINDS = ("config.json", "params.json", "*.safetensors", "*.gguf")


def models(root: Path) -> Iterator[dict[str, Any]]:
    """Yield each model below `root`: those of the hub cache, those staged, and other folders.

    Of these only what holds a config or weights counts (GGUF and Mistral's have no config.json).
    """
    staged = dict(records(root))
    found = (path.parent for kind in KINDS for path in root.glob(f"*/{kind}"))
    for folder in sorted({*root.glob("hub/models--*"), *staged, *found}):
        sizes = list(files(folder))
        yield {
            "folder": os.path.relpath(folder, root),
            "bytes": sum(size for _, size in sizes),
            "files": len(sizes),
            "partial": sum(name.endswith(PARTIAL) for name, _ in sizes),
            "commits": sorted(path.name for path in folder.glob("snapshots/*")),
            "staged": folder in staged,
        }


def files(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the name and the size of each file below `folder` that this user may see."""
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # hidden, or gone meanwhile
                found = os.lstat(os.path.join(parent, name))  # noqa: PTH118 - many
                if stat.S_ISREG(found.st_mode):
                    yield name, found.st_size


def records(root: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the folder of each model that runs of ours brought here, and the record of that."""
    for path in root.glob(f"{FOLDER}/manifests/*.json"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            manifest = json.loads(path.read_text())
            name = manifest["name"]
            if manifest["commit"]:
                name = "hub/models--" + name.replace("/", "--")
            if (root / name).is_dir():
                yield root / name, path


def remove(root: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Remove what runs of ours brought into a folder; leave and name all else."""
    held = lock(root)
    ours, removed, left, freed = brought(root), 0, [], 0
    record = dict(records(root)).get(root / request["folder"])
    for parent, _, names in os.walk(root / request["folder"], topdown=False):
        for path in (Path(parent, name) for name in names):
            name = os.path.relpath(path, root)
            found = path.lstat()
            of_none = path.is_symlink() or path.parent.name == "refs" or name.endswith(PARTIAL)
            if of_none or name in ours:
                path.unlink()
                removed += 1
                freed += found.st_size if found.st_nlink == 1 else 0
            else:
                left.append(name)
        with contextlib.suppress(OSError):  # what is left keeps its folder
            Path(parent).rmdir()
    if record:
        record.unlink()
    os.close(held)
    return {"removed": removed, "freed": freed, "left": left}


def brought(root: Path) -> set[str]:
    """Return the files that the ledger marks as brought by a run of ours.

    A later row of a file that has not changed since adds a hash of another kind.
    """
    rows: dict[str, list[Any]] = {}
    ledger = root / FOLDER / "ledger.jsonl"
    for line in ledger.read_text(errors="replace").splitlines() if ledger.exists() else ():
        with contextlib.suppress(ValueError):  # a run that was killed leaves half a line
            name, *row = json.loads(line)
            before = rows.get(name, [])
            rows[name] = row + before[4:] if row[:3] == before[:3] else row
    return {name for name, row in rows.items() if "brought" in row}


def main() -> dict[str, Any]:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.buffer.readline())

    def work(root: Path) -> dict[str, Any]:
        if request["do"] == "list":
            return {"root": str(root), "models": list(models(root))}
        return remove(root, request)

    return answered(request["root"], work)


if __name__ == "__main__":
    print(json.dumps(main()))
