"""One writer at a time in a weights folder, and errors for one that cannot be written."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sparkfleet.onhost.shared.labels import STATE_FOLDER
from sparkfleet.onhost.shared.paths import RefusedError

LACKING = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)  # what a filesystem answers that has no such
ELSEWHERE = "set weights_dir of this host to a folder on its disk (ext4, xfs)"
CHECK_PATH_HINT = "look at that path; then run again"


def lock_weights_folder(root: Path) -> int:
    """Keep every other writer away from `root` until the file that is returned is closed."""
    folder = root / STATE_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    held = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        problem = f"another run is staging weights into {root}"
        raise RefusedError(problem, "wait for it; its files are not sent again") from None
    return held


def answer_weights_request(
    root: str, work: Callable[[Path], dict[str, Any]], again: str = CHECK_PATH_HINT
) -> dict[str, Any]:
    """Return what `work` answers in the weights folder `root`, or why it cannot."""
    try:
        return work(Path(root).expanduser())
    except RefusedError as refusal:
        return refusal.answer()
    except RuntimeError:  # of expanduser
        return {
            "error": f"{root}: no such user on this host",
            "hint": "see weights_dir",
        }
    except OSError as error:
        hint = ELSEWHERE if error.errno in LACKING else again
        if error.errno in (errno.EACCES, errno.EPERM):
            hint = f"give it to this user: sudo chown -R {os.getuid()} {error.filename or root}"
        return {"error": f"{error.filename or root}: {error.strerror}", "hint": hint}
