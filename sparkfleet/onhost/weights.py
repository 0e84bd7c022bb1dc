"""Tell which files of a model this host holds, whole and right; writes nothing but the ledger.

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

from sparkfleet.onhost.parts.hashes import PIECE, digest
from sparkfleet.onhost.parts.ledger import Ledger
from sparkfleet.onhost.parts.paths import RefusedError, checked
from sparkfleet.onhost.parts.safetensors import header_problem

PARTIAL = ".incomplete"


class Tree:
    """The weights folder of this host, and `caches` elsewhere of which files can be taken."""

    def __init__(self, root: Path, caches: list[Path], ledger: Ledger, *, full: bool) -> None:
        self.root = root
        self.caches = caches
        self.ledger = ledger
        self.full = full
        self.hashed = 0
        self._read: set[str] = set()
        self._by_size: dict[int, list[str]] = {}

    def look(self, item: dict[str, Any]) -> dict[str, Any] | None:
        """Return None for a file that is complete, else what is wrong and what can be used."""
        state, seen = self.judge(item["path"], item)
        if state == "complete":
            return None
        have = next(self.copies(item), None)
        begun = self.root / (item["blob"] + PARTIAL)
        offset = min(begun.stat().st_size, item["size"]) if os.access(begun, os.W_OK) else 0
        copy = have is not None and not linkable(self.root / have, self.root / item["blob"])
        found = {"path": item["path"], "state": state, "seen": seen, "have": have}
        return {**found, "copy": copy, "offset": offset}

    def judge(self, name: str, item: dict[str, Any]) -> tuple[str, str]:
        """Return the state of file `name`, which should hold `item`, and what was seen."""
        path = self.root / name
        try:
            return self._judge(path, item)
        except PermissionError:
            return "unreadable", _owner(path)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return "unreadable", f"{path}: {error.strerror}"  # a disk or a server that fails
            if path.is_symlink():
                return "dangling", f"a link to {os.readlink(path)}"  # noqa: PTH115 - Python 3.8
            return "missing", "no file"

    def _judge(self, path: Path, item: dict[str, Any]) -> tuple[str, str]:
        found, real = path.stat(), self.name(path)
        if self.root in path.parents:  # where the engine sees it only if no link leads out
            blind = _blind(path, self.root)
            if blind or os.path.isabs(real):  # noqa: PTH117 - a text
                return "outside", blind or real
        if not stat.S_ISREG(found.st_mode):
            return "kind", "no regular file"
        if found.st_size != item["size"]:
            return "size", f"{found.st_size} bytes"
        if not os.access(path, os.R_OK):  # also what the ledger knows, and nobody opens
            return "unreadable", _owner(path)
        seen = self.hash(real, found, item["hash"].split(":")[0])
        if seen != item["hash"]:
            return "hash", seen
        problem = header_problem(path, found.st_size) if path.suffix == ".safetensors" else None
        return ("header", problem) if problem else ("complete", "")

    def hash(self, name: str, found: os.stat_result, kind: str) -> str:
        """Return the hash of file `name`, from the ledger where that may be trusted."""
        again = self.full and name not in self._read
        known = None if again else self.ledger.lookup(name, found, kind)
        if known is None:
            known = digest(self.root / name, kind)
            self.hashed += found.st_size
            self._read.add(name)
            self.ledger.record(name, found, known)
        return known

    def name(self, path: Path) -> str:
        """Return where the bytes of `path` live: from the root, or a full path if elsewhere."""
        real = os.path.relpath(path.resolve(), self.root.resolve())
        return str(path.resolve()) if real.startswith("../") else real

    def copies(self, item: dict[str, Any]) -> Iterator[str]:
        """Yield the files that hold the bytes of `item`, whatever their layout."""
        for name in (item["blob"], *self.sizes().get(item["size"], ())):
            if self.judge(name, item)[0] == "complete":
                yield self.name(self.root / name)

    def sizes(self) -> dict[int, list[str]]:
        """Return the files below the root, then those of the caches, by their size."""
        if not self._by_size:
            by_size: dict[int, list[str]] = {0: []}
            for path in (path for top in (self.root, *self.caches) for path in _files(top)):
                with contextlib.suppress(OSError):  # hidden, or another run is at work
                    by_size.setdefault(path.lstat().st_size, []).append(str(path))
            self._by_size = by_size
        return self._by_size


def _files(top: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(top):
        yield from (Path(folder, name) for name in names if not name.endswith(PARTIAL))


def linkable(have: Path, blob: Path) -> bool:
    """Say whether `have` can get the name `blob` too: one filesystem, and a file of this user.

    A file of another user must be writable (``fs.protected_hardlinks``).
    """
    home, found = blob.parent, have.stat()
    while not home.exists():
        home = home.parent
    mine = os.getuid() in (0, found.st_uid) or os.access(have, os.R_OK | os.W_OK)
    return mine and found.st_dev == home.stat().st_dev


def _blind(path: Path, root: Path) -> str:
    """Name a link on the way to `path` that a container, with `root` elsewhere, cannot take."""
    here, parts = root, list(path.relative_to(root).parts)
    while parts:
        here = here / parts.pop(0)
        if here.is_symlink():
            target = os.readlink(here)  # noqa: PTH115 - Python 3.8
            if os.path.isabs(target):  # noqa: PTH117 - a text
                return f"{here}, a link to the full path {target}"
            here, parts = here.parent, [*Path(target).parts, *parts]
    return ""


def _owner(path: Path) -> str:
    path = Path(os.path.realpath(path))
    while not os.access(path.parent, os.X_OK):
        path = path.parent
    found = path.lstat()
    return f"{path} of user {found.st_uid} with mode {stat.S_IMODE(found.st_mode):o}"


def own(root: Path) -> Path:
    """Return the ledger in this user's cache, for a weights folder that they may only read."""
    name = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:16]
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - never fails
    return Path(cache, "sparkfleet", f"{name}.jsonl")


def inspect(root: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Answer `request`, telling each second how many bytes were hashed."""
    for name in (item[kind] for item in request["files"] for kind in ("path", "blob")):
        checked(root, name)  # a link that leads out is told as the state of its file
    path = Path(request["ledger"]).expanduser()
    ledger = Ledger(path, own(root), writable=request["record"])
    caches = [Path(os.path.expanduser(name)) for name in request["caches"]]  # noqa: PTH111 - never fails
    tree = Tree(root, caches, ledger, full=request["full"])
    threading.Thread(target=_tell, args=(tree,), daemon=True).start()
    with ThreadPoolExecutor(min(os.cpu_count() or 1, 8)) as threads:
        findings = [found for found in threads.map(tree.look, request["files"]) if found]
    return {"files": findings, "hashed": tree.hashed}


def _tell(tree: Tree) -> None:
    """Say each second how far it is, and end when whoever asks has gone."""
    while not select.select([0], [], [], 1)[0] or os.read(0, PIECE):
        print(json.dumps({"progress": {"hashed": tree.hashed}}), flush=True)
    os._exit(1)


if __name__ == "__main__":
    asked = json.loads(sys.stdin.buffer.readline())
    try:
        print(json.dumps(inspect(Path(asked["root"]).expanduser(), asked)))
    except RefusedError as refusal:
        print(json.dumps(refusal.answer()))
