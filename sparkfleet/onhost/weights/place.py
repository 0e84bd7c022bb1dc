"""Put files that are on this host in their place.

Request: ``root`` (the weights folder; ``~`` is this user's home), ``items`` (the ``path`` that the
engine reads, the ``blob`` where its bytes shall live, ``have``: the file that has them) and
``texts`` (small files, path -> text); paths count from the root. While it copies, a line a second
reports ``copied`` bytes; it ends when its input does. Answer: what was ``placed``, ``texts``.

Every step is one rename, so that a kill leaves nothing half done.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import select
import sys
import threading
from pathlib import Path
from typing import Any

from sparkfleet.onhost.shared.labels import PARTIAL, STATE_FOLDER
from sparkfleet.onhost.shared.paths import RefusedError, join_contained_path, resolve_source_file
from sparkfleet.onhost.shared.weights.ledger import append_row
from sparkfleet.onhost.shared.writing import (
    ELSEWHERE,
    LACKING,
    answer_weights_request,
    lock_weights_folder,
)

PIECE = 1 << 20
MADE = ("path", "blob")  # of an item


def place_weights(root: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Publish bytes that are here already: by a hard link where that can be, else by a copy."""
    check(root, request)
    held = lock_weights_folder(root)
    copied: list[int] = []
    threading.Thread(target=_report_copied, args=(copied,), daemon=True).start()
    placed = [item["path"] for item in request["items"] if _place_item(root, item, copied)]
    for name, text in request["texts"].items():
        partial = _partial_path(join_contained_path(root, name))
        partial.unlink(missing_ok=True)
        with partial.open("x") as file:
            file.write(text)
        partial.replace(root / name)
    os.close(held)
    return {"placed": placed, "texts": list(request["texts"])}


def check(root: Path, request: dict[str, Any]) -> None:
    """Refuse paths that lead out of `root`, before anything is made."""
    for name in (*request["texts"], *(item[kind] for item in request["items"] for kind in MADE)):
        join_contained_path(root, name)
    for item in request["items"]:
        resolve_source_file(root, item["have"])


def _report_copied(copied: list[int]) -> None:
    """Report the copied bytes each second; exit when standard input ends."""
    while not select.select([0], [], [], 1)[0] or os.read(0, PIECE):
        print(json.dumps({"progress": {"copied": sum(copied)}}), flush=True)
    os._exit(1)


def _place_item(root: Path, item: dict[str, Any], copied: list[int]) -> bool:
    path, blob = (join_contained_path(root, item[name]) for name in MADE)
    have = resolve_source_file(root, item["have"])
    if not have.exists():
        return False
    if have != blob:
        if not _try_hard_link(have, blob):
            _copy_verified(have, blob, item["hash"], copied)
        append_to_ledger(root, blob, item["hash"])
    if path != blob:
        link = _partial_path(path)
        link.unlink(missing_ok=True)
        try:
            link.symlink_to(os.path.relpath(blob, path.parent))
        except OSError as error:
            if error.errno in (errno.EPERM, *LACKING):
                raise RefusedError(f"cannot create links in {path.parent}", ELSEWHERE) from error
            raise
        link.replace(path)
    return True


def _try_hard_link(have: Path, blob: Path) -> bool:
    """Give `have` the name `blob` too; False: another filesystem, or another user's file.

    The name on the way is not that of a download, which might be shortened and both with it.
    """
    link = _partial_path(blob, ".link")
    link.unlink(missing_ok=True)
    try:
        os.link(have, link)
    except OSError:
        return False
    link.replace(blob)
    link.unlink(missing_ok=True)  # a rename to another name of the same file does nothing
    return True


def _copy_verified(have: Path, blob: Path, expected: str, copied: list[int]) -> None:
    """Copy `have` to `blob` if its bytes still have the `expected` hash; append to `copied`."""
    partial = _partial_path(blob)
    partial.unlink(missing_ok=True)
    state = hashlib.sha256()
    if expected.startswith("git:"):
        state = hashlib.sha1(b"blob %d\0" % have.stat().st_size)  # noqa: S324 - Git's own
    with have.open("rb") as source, partial.open("xb") as target:
        for piece in iter(lambda: source.read(PIECE), b""):
            target.write(piece)
            state.update(piece)
            copied.append(len(piece))
    if state.hexdigest() != expected.partition(":")[2]:
        partial.unlink()
        raise RefusedError(
            f"{have} changed while it was copied", "run again once it no longer changes"
        )
    drop_from_page_cache(have, partial)
    partial.replace(blob)


def drop_from_page_cache(*files: Path) -> None:
    """Bring copied files to the disk and out of the page cache, which starves the GPU's memory."""
    for path in files:
        with path.open("rb") as file:
            os.fdatasync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def append_to_ledger(root: Path, blob: Path, digest: str) -> None:
    """Record in the ledger that sparkfleet staged `blob`."""
    status = blob.stat()
    name = os.path.relpath(blob.resolve(), root.resolve())
    row = [name, status.st_size, status.st_mtime_ns, status.st_ino, digest, "brought"]
    append_row(root / STATE_FOLDER / "ledger.jsonl", row)


def _partial_path(path: Path, kind: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.with_name(path.name + kind + PARTIAL)


def main() -> dict[str, Any]:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.buffer.readline())
    return answer_weights_request(request["root"], lambda root: place_weights(root, request))


if __name__ == "__main__":
    print(json.dumps(main()))
