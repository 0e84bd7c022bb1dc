"""Report which files of a model this host has, complete and correct; writes only the ledger.

Request: ``root`` (the weights folder; ``~`` is this user's home), ``files`` (each ``path`` that the
engine reads, ``blob`` where its bytes live, ``size`` and ``hash``; paths count from the root),
``caches`` (folders elsewhere that may have the right bytes), ``full`` (hash even what the ledger
knows), the ``ledger``, ``record`` (it may be written).

Answer: ``files`` has, for each file that is not complete, its ``state``, what was ``seen``, where
the right bytes are already (``have``), whether a hard link cannot bring them from there (``copy``)
and how many of them arrived before (``offset``); ``hashed`` counts the bytes that were read.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import select
import stat
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sparkfleet.onhost.shared.labels import PARTIAL
from sparkfleet.onhost.shared.paths import RefusedError, expand_folder, join_relative_path
from sparkfleet.onhost.shared.weights.hashes import PIECE, hash_file
from sparkfleet.onhost.shared.weights.ledger import Ledger
from sparkfleet.onhost.shared.weights.safetensors import find_header_problem


class WeightsTree:
    """The weights folder of this host, and `caches` elsewhere of which files can be taken."""

    def __init__(self, root: Path, caches: list[Path], ledger: Ledger, *, full: bool) -> None:
        self.root = root
        self.caches = caches
        self.ledger = ledger
        self.full = full
        self.hashed = 0
        self._read: set[str] = set()
        self._by_size: dict[int, list[str]] = {}

    def inspect_file(self, item: dict[str, Any]) -> dict[str, Any] | None:
        """Return None for a file that is complete, else what is wrong and what can be used."""
        state, detail = self.classify_file(item["path"], item)
        if state == "complete":
            return None
        have = next(self.copies(item), None)
        begun = self.root / (item["blob"] + PARTIAL)
        offset = min(begun.stat().st_size, item["size"]) if os.access(begun, os.W_OK) else 0
        copy = have is not None and not can_hard_link(self.root / have, self.root / item["blob"])
        finding = {"path": item["path"], "state": state, "seen": detail, "have": have}
        return {**finding, "copy": copy, "offset": offset}

    def classify_file(self, name: str, item: dict[str, Any]) -> tuple[str, str]:
        """Return the state of file `name`, which should hold `item`, and what was seen."""
        path = self.root / name
        try:
            return self._classify_regular_file(path, item)
        except PermissionError:
            return "unreadable", _describe_owner(path)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return "unreadable", f"{path}: {error.strerror}"  # a disk or a server that fails
            if path.is_symlink():
                return "dangling", f"a link to {os.readlink(path)}"
            return "missing", "no file"

    def _classify_regular_file(self, path: Path, item: dict[str, Any]) -> tuple[str, str]:
        status = path.stat()
        real = self.name(path)
        if self.root in path.parents:  # where the engine sees it only if no link leads out
            blind = _find_absolute_link(path, self.root)
            if blind or os.path.isabs(real):  # noqa: PTH117 - a text
                return "outside", blind or real
        if not stat.S_ISREG(status.st_mode):
            return "kind", "no regular file"
        if status.st_size != item["size"]:
            return "size", f"{status.st_size} bytes"
        if not os.access(path, os.R_OK):  # a ledger entry alone opens no file
            return "unreadable", _describe_owner(path)
        actual = self.hash(real, status, item["hash"].split(":")[0])
        if actual != item["hash"]:
            return "hash", actual
        problem = (
            find_header_problem(path, status.st_size) if path.suffix == ".safetensors" else None
        )
        return ("header", problem) if problem else ("complete", "")

    def hash(self, name: str, status: os.stat_result, kind: str) -> str:
        """Return the hash of file `name`, from the ledger where that may be trusted."""
        again = self.full and name not in self._read
        file_hash = None if again else self.ledger.lookup(name, status, kind)
        if file_hash is None:
            file_hash = hash_file(self.root / name, kind)
            self.hashed += status.st_size
            self._read.add(name)
            self.ledger.record(name, status, file_hash)
        return file_hash

    def name(self, path: Path) -> str:
        """Return where the bytes of `path` live: from the root, or a full path if elsewhere."""
        real = os.path.relpath(path.resolve(), self.root.resolve())
        return str(path.resolve()) if real.startswith("../") else real

    def copies(self, item: dict[str, Any]) -> Iterator[str]:
        """Yield the files that hold the bytes of `item`, whatever their layout."""
        for name in (item["blob"], *self.sizes().get(item["size"], ())):
            if self.classify_file(name, item)[0] == "complete":
                yield self.name(self.root / name)

    def sizes(self) -> dict[int, list[str]]:
        """Return the files below the root, then those of the caches, by their size."""
        if not self._by_size:
            by_size: dict[int, list[str]] = {0: []}
            for path in (
                path for top in (self.root, *self.caches) for path in _walk_complete_files(top)
            ):
                with contextlib.suppress(OSError):  # hidden, or another run is at work
                    by_size.setdefault(path.lstat().st_size, []).append(str(path))
            self._by_size = by_size
        return self._by_size


def _walk_complete_files(top: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(top):
        yield from (Path(folder, name) for name in names if not name.endswith(PARTIAL))


def can_hard_link(have: Path, blob: Path) -> bool:
    """Say whether `have` can get the name `blob` too: one filesystem, and a file of this user.

    A file of another user must be writable (``fs.protected_hardlinks``).
    """
    home = blob.parent
    status = have.stat()
    while not home.exists():
        home = home.parent
    may_link = os.getuid() in (0, status.st_uid) or os.access(have, os.R_OK | os.W_OK)
    return may_link and status.st_dev == home.stat().st_dev


def _find_absolute_link(path: Path, root: Path) -> str:
    """Name a link on the way to `path` that a container, with `root` elsewhere, cannot take."""
    here = root
    parts = list(path.relative_to(root).parts)
    while parts:
        here = here / parts.pop(0)
        if here.is_symlink():
            target = os.readlink(here)
            if os.path.isabs(target):  # noqa: PTH117 - a text
                return f"{here}, a link to the full path {target}"
            here = here.parent
            parts = [*Path(target).parts, *parts]
    return ""


def _describe_owner(path: Path) -> str:
    path = Path(os.path.realpath(path))
    while not os.access(path.parent, os.X_OK):
        path = path.parent
    status = path.lstat()
    return f"{path} of user {status.st_uid} with mode {stat.S_IMODE(status.st_mode):o}"


def locate_user_ledger(root: Path) -> Path:
    """Return the ledger in this user's cache, for a weights folder that they may only read."""
    name = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:16]
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - never fails
    return Path(cache, "sparkfleet", f"{name}.jsonl")


def inspect_tree(root: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Answer `request`, and report each second how many bytes were hashed."""
    for name in (item[kind] for item in request["files"] for kind in ("path", "blob")):
        join_relative_path(root, name)  # a link that leads out is reported as the state of its file
    path = Path(request["ledger"]).expanduser()
    ledger = Ledger(path, locate_user_ledger(root), writable=request["record"])
    caches = [Path(os.path.expanduser(name)) for name in request["caches"]]  # noqa: PTH111 - never fails
    tree = WeightsTree(root, caches, ledger, full=request["full"])
    threading.Thread(target=_report_hashed, args=(tree,), daemon=True).start()
    with ThreadPoolExecutor(min(os.cpu_count() or 1, 8)) as threads:
        findings = [
            finding for finding in threads.map(tree.inspect_file, request["files"]) if finding
        ]
    return {"files": findings, "hashed": tree.hashed}


def _report_hashed(tree: WeightsTree) -> None:
    """Report the progress each second; exit when standard input ends."""
    while not select.select([0], [], [], 1)[0] or os.read(0, PIECE):
        print(json.dumps({"progress": {"hashed": tree.hashed}}), flush=True)
    os._exit(1)


if __name__ == "__main__":
    query = json.loads(sys.stdin.buffer.readline())
    try:
        print(json.dumps(inspect_tree(expand_folder(query["root"]), query)))
    except RefusedError as refusal:
        print(json.dumps(refusal.answer()))
