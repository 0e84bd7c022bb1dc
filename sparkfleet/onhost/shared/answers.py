"""Answers of programs: to a request about a cluster, and to a system call that fails."""

from __future__ import annotations

import errno
import getpass
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from sparkfleet.onhost.shared.paths import RefusedError, locate_cluster_folder

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)  # of a filesystem without locks
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
SET_CLUSTER_DIR = (
    "that filesystem does not support locks: set cluster_dir to a folder on a local disk"
)

HINTS = {
    errno.ENOSPC: "free space on that host: df -h {folder}; df -i {folder}",
    errno.EDQUOT: "the quota of {user} is used up: quota -s",
    errno.EROFS: "the filesystem is read-only: findmnt -T {folder}; sudo dmesg | tail",
    errno.EACCES: "{user} needs write permission: ls -ld {folder}",
    errno.EPERM: "{user} must own it: ls -ld {path} {folder}",
    errno.ENAMETOOLONG: "use a shorter cluster_name, cluster_dir or weights_dir",
    errno.EISDIR: "a directory is in the place of a file; move it away: mv {path} {path}.old",
    errno.ENOTDIR: "a file is in the place of a directory: ls -ld {folder}",
    errno.EEXIST: "a file is in the place of a directory: ls -ld {path}",
    errno.ELOOP: "a symbolic link is in its place: ls -l {path}",
    errno.EIO: "the disk is failing: sudo dmesg | tail",
    errno.ESTALE: "the file server no longer has it: findmnt -T {folder}; mount it again",
    errno.EMFILE: "{user} has too few file descriptors: ulimit -n",
    errno.EAGAIN: "{user} has reached the limit of processes: ulimit -u",
    **dict.fromkeys(NO_LOCKS, SET_CLUSTER_DIR),
}


Handler = Callable[[dict[str, Any]], dict[str, Any]]


def answer_cluster_request(handlers: Mapping[str, Handler]) -> None:
    """Answer the request on standard input by the handler that its ``do`` names.

    ``cluster_dir`` and ``cluster`` name the folder of the cluster: the handler gets its path as
    ``folder`` of the request. A refusal and a system call that fails are answers too.
    """
    request = json.loads(sys.stdin.readline())
    folder: Any = request["cluster_dir"]
    try:
        folder = request["folder"] = locate_cluster_folder(
            request["cluster_dir"], request["cluster"]
        )
        answer = handlers[request["do"]](request)
    except RefusedError as refusal:
        answer = refusal.answer()
    except OSError as error:
        answer = build_os_error_answer(error, folder)
    print(json.dumps(answer))


def build_os_error_answer(error: OSError, path: Any, hint: str | None = None) -> dict[str, Any]:
    """Return `error` as the answer of a program; `path` is what it worked on, if it names none.

    `hint` is for an errno that says nothing by itself.
    """
    path = error.filename if isinstance(error.filename, str) else str(path)
    folder = os.path.dirname(path) or "."  # noqa: PTH120 - error.filename is text
    known = HINTS.get(error.errno or 0)
    if known:
        hint = known.format(path=path, folder=folder, user=find_current_user())
    return {"error": f"{path}: {error.strerror or error}", "hint": hint}


def find_current_user() -> str:
    """Return the name of this user, or the number of one without a name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"
