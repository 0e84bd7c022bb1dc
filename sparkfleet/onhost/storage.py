"""Tell what the weights folder of this host can take, and what lies in a model's folder; read-only.

Request: ``root`` (the weights folder; ``~`` is this user's home), ``folder`` (where the model lives
below it), ``served`` (the folder that the engine reads), ``expected`` (files that belong there,
below ``served``), ``refs`` (small files to read), ``indexes`` (those of shards, and for each
whether it stands in a folder of its own).

Answer: ``root`` as a full path, ``base`` (it, or the nearest folder above it that exists), who may
write there, its filesystem with free bytes and inodes and what a quota leaves; then of the model's
folder: ``foreign`` (paths of other users), ``strays`` (downloads that never ended), ``extra``
weights files that do not belong there, ``commits`` and ``refs``, and what is wrong with each
safetensors index (``indexes``).
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import pwd
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sparkfleet.onhost.parts.paths import RefusedError, checked
from sparkfleet.onhost.parts.safetensors import index_problem

PARTIAL = ".incomplete"
BOOKS = ".sparkfleet"
WRITTEN = ("lock", "ledger.jsonl", "manifests")  # of our books
WEIGHTS = (".safetensors", ".bin", ".pt", ".gguf")
Q_GETQUOTA = 0x800007 << 8  # for users; <linux/quota.h>
LOOSE = "."  # in a model's place: files right below the root
BLOCK = 1024  # bytes in a quota block


class Quota(ctypes.Structure):
    """`struct if_dqblk` of <linux/quota.h>: limits in blocks of 1 KiB, use in bytes."""

    _fields_ = (
        ("hard_blocks", ctypes.c_uint64),
        ("soft_blocks", ctypes.c_uint64),
        ("used", ctypes.c_uint64),
        ("hard_inodes", ctypes.c_uint64),
        ("soft_inodes", ctypes.c_uint64),
        ("used_inodes", ctypes.c_uint64),
        ("_times", ctypes.c_uint64 * 2),
        ("_valid", ctypes.c_uint32),
    )


def quota_left(device: str) -> int | None:
    """Return the bytes that this user's quota on `device` leaves; None where there is none."""
    quota = Quota()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.quotactl(Q_GETQUOTA, device.encode(), os.getuid(), ctypes.byref(quota)) != 0:
        return None
    return max(quota.hard_blocks * BLOCK - quota.used, 0) if quota.hard_blocks else None


def mount_of(path: Path) -> tuple[str, str]:
    """Return the device and the filesystem that hold `path`."""
    best, device, kind = "", "", ""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        source, point, name = line.split()[:3]
        point = point.encode().decode("unicode_escape").encode("latin-1").decode()  # \\040: a space
        if os.path.commonpath([point, path]) == point and len(point) >= len(best):
            best, device, kind = point, source, name
    return device, kind


def storage(root: Path) -> dict[str, Any]:
    """Return what can be written at `root`."""
    base = root
    while not os.path.lexists(base):  # nor what is hidden from this user
        base = base.parent
    if not os.path.exists(base):  # noqa: PTH110 - a link to a disk that is not mounted, or hidden
        return {**storage(base.parent), "root": str(root), "base": _link(base), "folder": False}
    space = os.statvfs(base)
    device, kind = mount_of(base.resolve())
    return {
        "root": str(root),
        "base": str(base) + (", mounted read-only" if space.f_flag & os.ST_RDONLY else ""),
        "folder": base.is_dir(),
        "writable": os.access(base, os.W_OK | os.X_OK),
        "owner": user(base.stat().st_uid),
        "user": user(os.getuid()),
        "filesystem": kind,
        "free": space.f_bavail * space.f_frsize,
        "free_inodes": space.f_favail if space.f_files else None,
        "quota_left": quota_left(device),
        "cores": os.cpu_count() or 1,
    }


def _link(path: Path) -> str:
    return f"{path}, a link to {os.readlink(path)}"  # noqa: PTH115 - Python 3.8


def user(number: int) -> str:
    """Return a user's name, or the number where no user has it."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def walk(folder: Path) -> Iterator[Path]:
    """Yield `folder` and all that is below it; links are not followed."""
    yield folder
    for parent, folders, names in os.walk(folder):
        yield from (Path(parent, name) for name in sorted(folders + names))


def contents(root: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Return what lies in the model's folder, and what should not."""
    folder, served = (_folder(root, request[kind]) for kind in ("folder", "served"))
    known = {checked(root, name) for name in request["expected"]}
    inside = known if folder == root else walk(folder)  # beside loose files stand other models
    chosen = dict.fromkeys((*way(root, folder), *inside))
    paths = [path for path in chosen if os.path.lexists(path)]
    partials = {path.with_name(path.name + PARTIAL) for path in known}
    return {
        "foreign": [owned(path) for path in paths if not ours(path)],
        "locked": [owned(path) for path in paths if locked(path)],
        "strays": [
            str(path) for path in paths if path.name.endswith(PARTIAL) and path not in partials
        ],
        "extra": [
            str(path)
            for path in paths
            if path.parent == served and path.suffix in WEIGHTS and path not in known
        ],
        "commits": sorted(path.name for path in paths if path.parent == folder / "snapshots"),
        "refs": texts(root, request["refs"]),
        "indexes": indexes(root, request["indexes"]),
    }


def _folder(root: Path, name: str) -> Path:
    return root if name == LOOSE else checked(root, name)


def indexes(root: Path, nested: dict[str, bool]) -> dict[str, str]:
    """Return what is wrong with each index that can be read."""
    found = {}
    for name, below in nested.items():
        with contextlib.suppress(OSError):  # it is not there: another verdict
            problem = index_problem(checked(root, name), nested=below)
            found.update({name: problem} if problem else {})
    return found


def way(root: Path, folder: Path) -> tuple[Path, ...]:
    """Return what must be writable beside `folder` itself: the folders above it, and our books."""
    books = root / BOOKS
    above = (path for path in folder.parents if root in path.parents)
    return (root, books, *(books / name for name in WRITTEN), *above)


def locked(path: Path) -> bool:
    """Say whether this user may not write what runs of ours must write."""
    written = os.path.isdir(path) or path.name in WRITTEN  # noqa: PTH112 - it may be hidden
    return written and not os.access(path, os.W_OK)


def texts(root: Path, names: list[str]) -> dict[str, str]:
    """Return what the files `names` hold, those that this user can read."""
    found = {}
    for name in names:
        with contextlib.suppress(OSError):
            found[name] = checked(root, name).read_text(errors="replace")
    return found


def downloads(root: Path, expected: list[str]) -> Iterator[Path]:
    """Yield the files of a cache that the Hub's client brings now: it holds a lock meanwhile.

    Clients of before June 2026 append to the ``.incomplete`` file that ours would be, also after it
    got its name (huggingface_hub#4306).
    """
    for blob in (checked(root, name) for name in expected if "/blobs/" in name):
        model = blob.parent.parent
        lock = model.parent / ".locks" / model.name / f"{blob.name}.lock"
        try:
            with lock.open() as held:
                fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            yield blob
        except OSError:  # nobody ever took it
            continue


def ours(path: Path) -> bool:
    """Say whether `path` belongs to this user, who can read it."""
    mine = path.lstat().st_uid == os.getuid()
    return mine and (path.is_symlink() or os.access(path, os.R_OK))


def owned(path: Path) -> str:
    """Return `path` with its owner and mode."""
    found = path.lstat()
    return f"{path} ({user(found.st_uid)}, mode {found.st_mode & 0o7777:o})"


if __name__ == "__main__":
    asked = json.loads(sys.stdin.buffer.readline())
    try:
        place = Path(asked["root"]).expanduser()
        answer = {**storage(place), **contents(place, asked)}
        busy = next(downloads(place, asked["expected"]), None)
        if busy:
            answer = {"error": f"hf download brings {busy} at this moment", "hint": "wait for it"}
    except OSError as error:
        answer = {
            "error": f"{error.filename or asked['root']}: {error.strerror}",
            "hint": "look at it there",
        }
    except RefusedError as refusal:
        answer = refusal.answer()
    except RuntimeError:  # of expanduser
        answer = {
            "error": f"nobody here has the home of {asked['root']}",
            "hint": "see weights_dir",
        }
    print(json.dumps(answer))
