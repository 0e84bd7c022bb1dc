"""Put files that are on this host in their place, list the models, take away what is ours.

Request: ``root`` (the weights folder; ``~`` is this user's home) and ``do``:

``place``: ``items`` (the ``path`` that the engine reads, the ``blob`` where its bytes shall live,
``have``: the file that has them) and ``texts`` (small files, path -> text). While it copies, a line
a second tells ``copied`` bytes; it ends when whoever asks has gone. ``list``: nothing.
``remove``: the ``folder`` of a model, of which the files go that runs of ours brought.

All paths count from the root. Every step is one rename, so that a kill leaves nothing half done.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import select
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PARTIAL = ".incomplete"
FOLDER = ".sparkfleet"
PIECE = 1 << 20
KINDS = ("config.json", "params.json", "*.safetensors", "*.gguf")


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
    copied: list[int] = []
    threading.Thread(target=_tell, args=(copied,), daemon=True).start()
    placed = [item["path"] for item in request["items"] if _place(root, item, copied)]
    for name, text in request["texts"].items():
        partial = _beside(root / name)
        partial.write_text(text)
        partial.replace(root / name)
    return {"placed": placed, "texts": list(request["texts"])}


def _tell(copied: list[int]) -> None:
    """Say each second how much was copied, and end when whoever asks has gone."""
    while not select.select([0], [], [], 1)[0] or os.read(0, PIECE):
        print(json.dumps({"progress": {"copied": sum(copied)}}), flush=True)
    os._exit(1)


def _place(root: Path, item: dict[str, Any], copied: list[int]) -> bool:
    path, blob, have = (root / item[name] for name in ("path", "blob", "have"))
    if not have.exists():
        return False
    if have != blob:
        if not _linked(have, blob):
            _copy(have, blob, item["hash"], copied)
        record(root, blob, item["hash"])
    if path != blob:
        link = _beside(path)
        link.unlink(missing_ok=True)
        link.symlink_to(os.path.relpath(blob, path.parent))
        link.replace(path)
    return True


def _linked(have: Path, blob: Path) -> bool:
    """Give `have` the name `blob` too; False: another filesystem, or another user's file.

    The name on the way is not that of a download, which might be shortened and both with it.
    """
    link = _beside(blob, ".link")
    link.unlink(missing_ok=True)
    try:
        os.link(have, link)
    except OSError:
        return False
    link.replace(blob)
    link.unlink(missing_ok=True)  # a rename to another name of the same file does nothing
    return True


def _copy(have: Path, blob: Path, known: str, copied: list[int]) -> None:
    """Copy `have` to `blob` if its bytes still have the hash `known`; append to `copied`."""
    partial = _beside(blob)
    partial.unlink(missing_ok=True)
    state = hashlib.sha256()
    if known.startswith("git:"):
        state = hashlib.sha1(b"blob %d\0" % have.stat().st_size)  # noqa: S324 - Git's own
    with have.open("rb") as source, partial.open("wb") as target:
        for piece in iter(lambda: source.read(PIECE), b""):
            target.write(piece)
            state.update(piece)
            copied.append(len(piece))
    if state.hexdigest() != known.partition(":")[2]:
        partial.unlink()
        raise RefusedError(f"{have} changed while it was copied", "run again when that is over")
    forget(have, partial)
    partial.replace(blob)


def forget(*files: Path) -> None:
    """Bring copied files to the disk and out of the page cache, which starves the GPU's memory."""
    for path in files:
        with path.open("rb") as file:
            os.fdatasync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def record(root: Path, blob: Path, known: str) -> None:
    """Tell the ledger that a run of ours brought `blob`."""
    found = blob.stat()
    name = os.path.relpath(blob.resolve(), root.resolve())
    row = [name, found.st_size, found.st_mtime_ns, found.st_ino, known, "brought"]
    with (root / FOLDER / "ledger.jsonl").open("a") as ledger:
        ledger.write(json.dumps(row) + "\n")


def _beside(path: Path, kind: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.with_name(path.name + kind + PARTIAL)


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
    try:
        root = Path(request["root"]).expanduser()
        if request["do"] == "list":
            return {"root": str(root), "models": list(models(root))}
        held = lock(root)
        answer = place(root, request) if request["do"] == "place" else remove(root, request)
        os.close(held)
    except RefusedError as refusal:
        error, hint = refusal.args
        return {"error": error, "hint": hint}
    except RuntimeError:  # of expanduser
        return {
            "error": f"nobody here has the home of {request['root']}",
            "hint": "see weights_dir",
        }
    except OSError as error:
        hint = "look at that path; then run again"
        if error.errno in (errno.EACCES, errno.EPERM):
            hint = f"give it to this user: sudo chown -R {os.getuid()} {root}"
        return {"error": f"{error.filename or root}: {error.strerror}", "hint": hint}
    return answer


if __name__ == "__main__":
    print(json.dumps(main()))
