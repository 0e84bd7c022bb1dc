"""List the models of this host, and remove those that sparkfleet staged.

Request: ``root`` (the weights folder; ``~`` is this user's home) and ``do``: ``list``, or
``remove`` with the ``folder`` of a model below the root, which removes the files that sparkfleet
staged.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sparkfleet.onhost.shared.labels import PARTIAL, STATE_FOLDER
from sparkfleet.onhost.shared.paths import is_below, join_contained_folder
from sparkfleet.onhost.shared.weights.ledger import parse_ledger_line
from sparkfleet.onhost.shared.writing import answer_weights_request, lock_weights_folder

KINDS = ("config.json", "params.json", "*.safetensors", "*.gguf")


def scan_models(root: Path) -> Iterator[dict[str, Any]]:
    """Yield each model below `root`: those of the hub cache, those staged, and other folders.

    Of these only what holds a config or weights counts (GGUF and Mistral's have no config.json).
    """
    staged = dict(find_staged_records(root))
    folders = (path.parent for kind in KINDS for path in root.glob(f"*/{kind}"))
    for folder in sorted({*root.glob("hub/models--*"), *staged, *folders}):
        sizes = list(walk_file_sizes(folder))
        yield {
            "folder": os.path.relpath(folder, root),
            "bytes": sum(size for _, size in sizes),
            "files": len(sizes),
            "partial": sum(name.endswith(PARTIAL) for name, _ in sizes),
            "commits": sorted(path.name for path in folder.glob("snapshots/*")),
            "staged": folder in staged,
        }


def walk_file_sizes(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the name and the size of each file below `folder` that this user may see."""
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # hidden, or removed meanwhile
                status = os.lstat(os.path.join(parent, name))  # noqa: PTH118 - many
                if stat.S_ISREG(status.st_mode):
                    yield name, status.st_size


def find_staged_records(root: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the folder of each model that sparkfleet staged here, with its record."""
    for path in root.glob(f"{STATE_FOLDER}/manifests/*.json"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            manifest = json.loads(path.read_text())
            name = str(manifest["name"])
            if manifest["commit"]:
                name = "hub/models--" + name.replace("/", "--")
            if is_below(name) and (root / name).is_dir():
                yield root / name, path


def remove_staged_files(root: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Remove the files that sparkfleet staged into a folder; leave and name all others.

    Snapshots that then lack a file are removed too, and so are the client's records of commits that
    no longer exist.
    """
    folder = join_contained_folder(root, request["folder"])
    held = lock_weights_folder(root)
    staged = read_staged_files(root)
    record = dict(find_staged_records(root)).get(folder)
    gone = sweep_files(
        folder, lambda path: str(path.relative_to(root)) in staged or path.suffix == PARTIAL
    )
    broken = {find_snapshot(folder, path) for path in walk_paths(folder) if not path.exists()}
    gone += sweep_files(
        folder, lambda path: path.is_symlink() and find_snapshot(folder, path) in broken
    )
    commits = {path.name for path in folder.glob("snapshots/*")}
    gone += sweep_files(folder, lambda path: find_commit(folder, path) not in {"", *commits})
    if record:
        record.unlink()
    os.close(held)
    return {
        "removed": len(gone),
        "freed": sum(it.st_size for it in gone if stat.S_ISREG(it.st_mode) and it.st_nlink == 1),
        "left": [
            str(path.relative_to(root)) for path in walk_paths(folder) if not path.is_symlink()
        ],
    }


def sweep_files(folder: Path, goes: Callable[[Path], bool]) -> list[os.stat_result]:
    """Remove the files that are to go, and the folders that are empty then."""
    gone = []
    for path in [path for path in walk_paths(folder) if goes(path)]:
        gone.append(path.lstat())
        path.unlink()
    for parent, _, _ in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):  # what is left keeps its folder
            Path(parent).rmdir()
    return gone


def walk_paths(folder: Path) -> Iterator[Path]:
    """Yield each file and link below `folder`."""
    for parent, _, names in os.walk(folder):
        yield from (Path(parent, name) for name in names)


def find_snapshot(folder: Path, path: Path) -> tuple[str, ...]:
    """Return the folder of a commit in which a file of a cache is."""
    return path.relative_to(folder).parts[:2]


def find_commit(folder: Path, path: Path) -> str:
    """Return the commit that a file in a cache of the Hub's client belongs to, "" for any other."""
    kind, *rest = path.relative_to(folder).parts
    if folder.parent.name != "hub" or not rest:
        return ""
    if kind == "refs":
        return path.read_text(errors="replace").strip()
    return {"trees": path.stem, ".no_exist": rest[0]}.get(kind, "")


def read_staged_files(root: Path) -> set[str]:
    """Return the files that the ledger marks as staged by sparkfleet.

    A later row of a file that has not changed since adds a hash of another kind.
    """
    rows: dict[str, list[Any]] = {}
    ledger = root / STATE_FOLDER / "ledger.jsonl"
    for line in ledger.read_text(errors="replace").splitlines() if ledger.exists() else ():
        parsed = parse_ledger_line(line)
        if parsed is not None:
            name, *row = parsed
            before = rows.get(name, [])
            rows[name] = row + before[4:] if row[:3] == before[:3] else row
    return {name for name, row in rows.items() if "brought" in row}


def main() -> dict[str, Any]:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.buffer.readline())

    def work(root: Path) -> dict[str, Any]:
        if request["do"] == "list":
            return {"root": str(root), "models": list(scan_models(root))}
        return remove_staged_files(root, request)

    return answer_weights_request(request["root"], work)


if __name__ == "__main__":
    print(json.dumps(main()))
