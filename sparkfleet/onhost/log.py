"""Tell the end of logs on this host.

Request: ``paths`` and ``lines``. Answer: ``logs``, the last lines of each file there is, by path;
carriage returns are kept, since a progress bar is one line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.readline())
    logs = {path: tail(Path(path).expanduser(), request["lines"]) for path in request["paths"]}
    print(json.dumps({"logs": {path: text for path, text in logs.items() if text is not None}}))


def tail(path: Path, count: int) -> str | None:
    """Return the last `count` lines of a file, or None where there is none."""
    try:
        text = path.read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return None
    return "\n".join(text.rstrip("\n").split("\n")[-count:])


main()
