"""Names that come from elsewhere, and what makes paths of them: nothing leads out of its folder."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

# As the kernel names them in /proc/self/mounts; the rest of the name of a FUSE program varies.
NETWORK_FILESYSTEM = re.compile(
    r"nfs4?|cifs|smb[23]?|lustre|ceph|glusterfs|beegfs|gpfs|afs|9p"
    r"|fuse\.(sshfs|glusterfs|ceph|s3fs|juicefs|rclone|gcsfuse)\S*"
)
MAX_NAME = 255  # bytes of a name, on every filesystem that a host has
MAX_PATH = 4095  # bytes; PATH_MAX of Linux without its NUL
SHOWN = 60  # characters of a refused value that a message shows
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
OUTSIDE_HINT = "nothing was changed; check the names of the model, its revision and its files"
CLUSTER_HINT = (
    "cluster_name: letters, digits, dots, _ and -, 63 at most, the first a letter or a digit"
)
HOME_HINT = "use ~/FOLDER or an absolute path in cluster_dir and weights_dir"


class RefusedError(Exception):
    """A refused request; `args` are the problem and the hint."""

    def answer(self) -> dict[str, Any]:
        """Return it as the answer of a program."""
        return {"error": self.args[0], "hint": self.args[1]}


def is_name(value: Any) -> bool:
    """Return whether `value` is one component of a path, which stays in its folder."""
    if not isinstance(value, str) or value in ("", ".", "..") or "/" in value:
        return False
    return CONTROL.search(value) is None and 0 < _count_bytes(value) <= MAX_NAME


def is_below(value: Any) -> bool:
    """Return whether `value` is a relative path that stays below its root, whatever that is."""
    return isinstance(value, str) and _count_bytes(value) <= MAX_PATH and _has_safe_parts(value)


def _has_safe_parts(text: str) -> bool:
    return all(is_name(part) for part in text.split("/"))


def _count_bytes(text: str) -> int:
    """Return how long a text is on a disk; -1 for one that no disk holds."""
    try:
        return len(text.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return -1


def is_cluster_name(value: Any) -> bool:
    """Return whether `value` can name a cluster, which is a folder on its hosts and a label too."""
    return isinstance(value, str) and CLUSTER.fullmatch(value) is not None


def shorten_value(value: Any) -> str:
    """Return an unchecked `value` in the form for a message."""
    text = ascii(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def join_relative_path(root: Path, name: str) -> Path:
    """Return the path `name` below `root`, links not looked at; raises RefusedError."""
    if not is_below(name):
        raise RefusedError(f"not a path below {root}: {shorten_value(name)}", OUTSIDE_HINT)
    return root / name


def join_contained_path(root: Path, name: str) -> Path:
    """Return the path `name` below `root`, to which no link on the way leads out of `root`.

    Raises RefusedError. The path itself may be a link: it is replaced, not followed.
    """
    path = join_relative_path(root, name)
    _check_contained(root, path.parent)
    return path


def join_contained_folder(root: Path, name: str) -> Path:
    """Return the folder `name` below `root`, which must not be a link out of `root`."""
    path = join_relative_path(root, name)
    _check_contained(root, path)
    return path


def resolve_source_file(root: Path, name: str) -> Path:
    """Return a file to read: one below `root`, or by its full path one that a cache here holds."""
    if str(name).startswith("/") and is_below(name[1:]):
        return Path(name)
    return join_contained_path(root, name)


def _check_contained(root: Path, folder: Path) -> None:
    top = os.path.realpath(root)
    real = os.path.realpath(folder)
    if os.path.commonpath([top, real]) != top:
        problem = f"{folder} leads out of {root}; the engine cannot follow it there"
        raise RefusedError(problem, "set weights_dir to the real folder")


def locate_cluster_folder(root: str, cluster: str) -> Path:
    """Return the folder of a cluster below `root`, its ``cluster_dir``; raises RefusedError."""
    if not is_cluster_name(cluster):
        raise RefusedError(f"not a valid cluster name: {shorten_value(cluster)}", CLUSTER_HINT)
    return expand_folder(root) / cluster


def expand_folder(folder: str) -> Path:
    """Return the path of `folder` with a home in place of ``~``; raises RefusedError."""
    try:
        return Path(folder).expanduser()
    except RuntimeError:
        problem = f"{folder}: no such user on this host"
        raise RefusedError(problem, HOME_HINT) from None


def find_mount(path: Path) -> tuple[str, str]:
    """Return the device and the filesystem that hold `path`."""
    best = ""
    device = ""
    kind = ""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        source, point, name = line.split()[:3]
        point = point.encode().decode("unicode_escape").encode("latin-1").decode()  # \\040: a space
        if os.path.commonpath([point, path]) == point and len(point) >= len(best):
            best = point
            device = source
            kind = name
    return device, kind


def find_filesystem(folder: str) -> str:
    """Return the filesystem that holds a folder, or will once the folder is made."""
    home = os.path.expanduser(folder)  # noqa: PTH111 - pathlib raises where ~user is unknown
    return find_mount(Path(os.path.realpath(home)))[1]
