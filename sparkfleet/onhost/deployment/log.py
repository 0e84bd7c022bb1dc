"""Return the last lines of logs on this host.

Request: ``paths`` and ``lines``; the name of a path may be a pattern. Answer: ``logs``, the last
lines of each file there is, by path; carriage returns are kept, since a progress bar is one line.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from sparkfleet.onhost.shared.reading import open_regular_file

TAIL = 256 << 20  # bytes of a log that are read


def main() -> None:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.readline())
    matches = {
        name: path for pattern in request["paths"] for name, path in expand_path_pattern(pattern)
    }
    logs = {name: read_last_lines(path, request["lines"]) for name, path in matches.items()}
    print(json.dumps({"logs": {path: text for path, text in logs.items() if text is not None}}))


def expand_path_pattern(pattern: str) -> list[tuple[str, Path]]:
    """Return the file that is named, or those that a pattern stands for, with their names."""
    path = Path(pattern).expanduser()
    if "*" not in path.name:
        return [(pattern, path)]
    return [(str(match), match) for match in sorted(path.parent.glob(path.name))]


def read_last_lines(path: Path, count: int) -> str | None:
    """Return the last `count` lines of a file, or None where there is none that can be read.

    A link in the place of a log is not followed: what it leads to is not a log.
    """
    try:
        with open_regular_file(path, os.O_NOFOLLOW) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            text = file.read(TAIL).decode(errors="replace")
    except OSError:
        return None
    return "\n".join(text.rstrip("\n").split("\n")[-count:])


if __name__ == "__main__":
    main()
