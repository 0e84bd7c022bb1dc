"""Report the state of this host's weights folder and of a model's folder in it; read-only.

Request: ``root`` (the weights folder; ``~`` is this user's home), ``folder`` (where the model lives
below it), ``served`` (the folder that the engine reads), ``expected`` (files that belong there,
below ``served``), ``refs`` (small files to read), ``indexes`` (those of shards, and for each
whether it has a folder of its own).

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

from sparkfleet.onhost.shared.answers import build_os_error_answer
from sparkfleet.onhost.shared.labels import PARTIAL, STATE_FOLDER
from sparkfleet.onhost.shared.paths import (
    RefusedError,
    expand_folder,
    find_mount,
    join_relative_path,
)
from sparkfleet.onhost.shared.weights.safetensors import find_index_problem

WRITTEN = ("lock", "ledger.jsonl", "manifests")  # in the state folder of sparkfleet
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


def read_quota_left(device: str) -> int | None:
    """Return the bytes that this user's quota on `device` leaves; None where there is none."""
    quota = Quota()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.quotactl(Q_GETQUOTA, device.encode(), os.getuid(), ctypes.byref(quota)) != 0:
        return None
    return max(quota.hard_blocks * BLOCK - quota.used, 0) if quota.hard_blocks else None


def inspect_storage(root: Path) -> dict[str, Any]:
    """Return what can be written at `root`."""
    base = root
    while not os.path.lexists(base):  # nor what is hidden from this user
        base = base.parent
    if not os.path.exists(base):  # noqa: PTH110 - a link to a disk that is not mounted, or hidden
        return {
            **inspect_storage(base.parent),
            "root": str(root),
            "base": _describe_dead_link(base),
            "folder": False,
        }
    space = os.statvfs(base)
    device, kind = find_mount(base.resolve())
    return {
        "root": str(root),
        "base": str(base) + (", mounted read-only" if space.f_flag & os.ST_RDONLY else ""),
        "folder": base.is_dir(),
        "writable": os.access(base, os.W_OK | os.X_OK),
        "owner": find_user_name(base.stat().st_uid),
        "user": find_user_name(os.getuid()),
        "filesystem": kind,
        "free": space.f_bavail * space.f_frsize,
        "free_inodes": space.f_favail if space.f_files else None,
        "quota_left": read_quota_left(device),
        "cores": os.cpu_count() or 1,
    }


def _describe_dead_link(path: Path) -> str:
    return f"{path}, a link to {os.readlink(path)}"


def find_user_name(number: int) -> str:
    """Return a user's name, or the number where no user has it."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def walk_folder(folder: Path) -> Iterator[Path]:
    """Yield `folder` and all that is below it; links are not followed."""
    yield folder
    for parent, folders, names in os.walk(folder):
        yield from (Path(parent, name) for name in sorted(folders + names))


def inspect_contents(root: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Return what lies in the model's folder, and what should not."""
    folder, served = (_locate_model_folder(root, request[kind]) for kind in ("folder", "served"))
    expected = {join_relative_path(root, name) for name in request["expected"]}
    inside = (
        expected if folder == root else walk_folder(folder)
    )  # loose files have other models next to them
    chosen = dict.fromkeys((*list_written_paths(root, folder), *inside))
    paths = [path for path in chosen if os.path.lexists(path)]
    partials = {path.with_name(path.name + PARTIAL) for path in expected}
    return {
        "foreign": [format_ownership(path) for path in paths if not is_owned_and_readable(path)],
        "locked": [format_ownership(path) for path in paths if is_write_protected(path)],
        "strays": [
            str(path) for path in paths if path.name.endswith(PARTIAL) and path not in partials
        ],
        "extra": [
            str(path)
            for path in paths
            if path.parent == served and path.suffix in WEIGHTS and path not in expected
        ],
        "commits": sorted(path.name for path in paths if path.parent == folder / "snapshots"),
        "refs": read_small_files(root, request["refs"]),
        "indexes": check_indexes(root, request["indexes"]),
    }


def _locate_model_folder(root: Path, name: str) -> Path:
    return root if name == LOOSE else join_relative_path(root, name)


def check_indexes(root: Path, nested: dict[str, bool]) -> dict[str, str]:
    """Return what is wrong with each index that can be read."""
    problems = {}
    for name, below in nested.items():
        with contextlib.suppress(OSError):  # it is not there: another verdict
            problem = find_index_problem(join_relative_path(root, name), nested=below)
            problems.update({name: problem} if problem else {})
    return problems


def list_written_paths(root: Path, folder: Path) -> tuple[Path, ...]:
    """Return the paths that must be writable besides `folder`: those above it, and the ledger."""
    books = root / STATE_FOLDER
    above = (path for path in folder.parents if root in path.parents)
    return (root, books, *(books / name for name in WRITTEN), *above)


def is_write_protected(path: Path) -> bool:
    """Return whether this user lacks permission to write what staging writes."""
    written = os.path.isdir(path) or path.name in WRITTEN  # noqa: PTH112 - it may be hidden
    return written and not os.access(path, os.W_OK)


def read_small_files(root: Path, names: list[str]) -> dict[str, str]:
    """Return what the files `names` hold, those that this user can read."""
    texts = {}
    for name in names:
        with contextlib.suppress(OSError):
            texts[name] = join_relative_path(root, name).read_text(errors="replace")
    return texts


def find_running_downloads(root: Path, expected: list[str]) -> Iterator[Path]:
    """Yield the files of a cache that the Hub's client is downloading: it holds their locks.

    Clients of before June 2026 append to the ``.incomplete`` file that staging would use, also
    after it got its name (huggingface_hub#4306).
    """
    for blob in (join_relative_path(root, name) for name in expected if "/blobs/" in name):
        model = blob.parent.parent
        lock = model.parent / ".locks" / model.name / f"{blob.name}.lock"
        try:
            with lock.open() as held:
                fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            yield blob
        except OSError:  # it was never locked
            continue


def is_owned_and_readable(path: Path) -> bool:
    """Say whether `path` belongs to this user, who can read it."""
    is_owner = path.lstat().st_uid == os.getuid()
    return is_owner and (path.is_symlink() or os.access(path, os.R_OK))


def format_ownership(path: Path) -> str:
    """Return `path` with its owner and mode."""
    status = path.lstat()
    return f"{path} ({find_user_name(status.st_uid)}, mode {status.st_mode & 0o7777:o})"


if __name__ == "__main__":
    query = json.loads(sys.stdin.buffer.readline())
    try:
        weights_root = expand_folder(query["root"])
        answer = {**inspect_storage(weights_root), **inspect_contents(weights_root, query)}
        busy = next(find_running_downloads(weights_root, query["expected"]), None)
        if busy:
            answer = {
                "error": f"hf download is writing {busy}",
                "hint": "wait until it has finished",
            }
    except OSError as error:
        answer = build_os_error_answer(error, query["root"], "check that path on the host")
    except RefusedError as refusal:
        answer = refusal.answer()
    print(json.dumps(answer))
