"""Tell which variables the programs of a deployment have otherwise than their file says.

Request: ``cluster_dir``, ``cluster`` and ``pids``, by role. Answer: ``differ``, the names of
variables by role, never a value. A program that has overwritten its environment, as those do that
set their title, tells nothing.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

LABEL = "SPARKFLEET_CLUSTER"


def main() -> None:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.readline())
    path = Path(request["cluster_dir"]).expanduser() / request["cluster"] / "nccl.env"
    wanted = exports(path.read_text(errors="replace")) if path.exists() else {}
    differ = {role: names(pid, wanted) for role, pid in request["pids"].items()}
    print(json.dumps({"differ": {role: found for role, found in differ.items() if found}}))


def exports(text: str) -> dict[str, str | None]:
    """Return the variables that the file exports, None for one that it unsets.

    What the shell has to look up first is left out.
    """
    found: dict[str, str | None] = {}
    words = iter(shlex.split(text, comments=True))
    for word in words:
        if word == "unset":
            found[next(words)] = None
        elif word == "export":
            name, _, value = next(words).partition("=")
            if "$" not in value:
                found[name] = value
    return found


def names(pid: int, wanted: dict[str, str | None]) -> list[str]:
    """Return the variables that a process has otherwise."""
    try:
        words = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []
    has = dict(word.split("=", 1) for word in words if "=" in word)
    if LABEL not in has:
        return []
    return sorted(name for name, value in wanted.items() if has.get(name) != value)


main()
