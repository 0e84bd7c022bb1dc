"""Return the SHA-256 of a file on this host.

Request: ``path``; ``~`` is this user's home. Answer: ``digest``, and if that is empty, ``why``.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

PIECE = 1 << 20  # bytes read at once


def main() -> None:
    """Answer the request on standard input."""
    path = Path(json.loads(sys.stdin.readline())["path"]).expanduser()
    try:
        answer = {"digest": hash_file_sha256(path), "why": ""}
    except OSError as error:
        answer = {"digest": "", "why": error.strerror or str(error)}
    print(json.dumps(answer))


def hash_file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    state = hashlib.sha256()
    with path.open("rb") as file:
        for piece in iter(lambda: file.read(PIECE), b""):
            state.update(piece)
    return state.hexdigest()


if __name__ == "__main__":
    main()
