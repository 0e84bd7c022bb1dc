"""The ledger of verified hashes on a host."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

SHAPE = (str, int, int, int, str)  # path, size, mtime, inode, hash


def parse_ledger_line(line: str) -> list[Any] | None:
    """Return the row in a line of a ledger; None if it is cut or of another shape."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, list) or len(row) < len(SHAPE):
        return None
    return row if all(isinstance(row[at], kind) for at, kind in enumerate(SHAPE)) else None


def append_row(path: Path, row: list[Any]) -> None:
    """Append a row to the ledger at `path`, which is not a link; raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "ab") as ledger:
        ledger.write(json.dumps(row).encode() + b"\n")


class Ledger:
    """Hashes of files that were proven before: JSON lines, appended; the last one of a path wins.

    A line is ``[path below the root, size, mtime in ns, inode, hash]``, with ``"brought"`` at its
    end if sparkfleet staged the file. All `paths` are read, the first writable one is written.
    """

    def __init__(self, *paths: Path, writable: bool) -> None:
        self.paths = paths
        self.writable = writable
        self.rows: dict[str, list[Any]] = {}
        for path in paths:
            with contextlib.suppress(OSError):  # there is none yet, or it is another user's
                for line in path.read_text(errors="replace").splitlines():
                    self._add(line)

    def _add(self, line: str) -> None:
        """Add a line, unless it is cut, as a killed run leaves it, or of another shape."""
        row = parse_ledger_line(line)
        if row is not None:
            self.rows[row[0]] = row[1:]

    def lookup(self, name: str, status: os.stat_result, kind: str) -> str | None:
        """Return the hash of file `name` if it is unchanged since it was proven."""
        size, mtime, inode, digest = self.rows.get(name, [0, 0, 0, ""])[:4]
        same = (size, mtime, inode) == (status.st_size, status.st_mtime_ns, status.st_ino)
        return digest if same and digest.startswith(kind) else None

    def record(self, name: str, status: os.stat_result, digest: str) -> None:
        """Remember the hash of file `name`."""
        row = [status.st_size, status.st_mtime_ns, status.st_ino, digest]
        news = row != self.rows.get(name, [])[:4]
        self.rows[name] = row
        for path in self.paths if news and self.writable else ():
            with contextlib.suppress(OSError):  # read-only, full, or another user's
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                append_row(path, [name, *row])
                return
