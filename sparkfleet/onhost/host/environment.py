"""Report variables whose value in running programs differs from their file.

Request: ``cluster_dir``, ``cluster`` and ``pids``, by role; where they run in containers, the ids
of these by role (``containers``) and what holds them (``cli``: docker or podman). Answer:
``differ``, the names of variables by role, never a value. A program that has overwritten its
environment, as those do that set their title, is left out.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from sparkfleet.onhost.shared.environment_file import parse_exports
from sparkfleet.onhost.shared.labels import CLUSTER_VARIABLE, ENVIRONMENT_FILE
from sparkfleet.onhost.shared.paths import RefusedError, locate_cluster_folder

PATIENCE = 30  # seconds for a look inside a container


def main() -> None:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.readline())
    try:
        path = locate_cluster_folder(request["cluster_dir"], request["cluster"]) / ENVIRONMENT_FILE
    except RefusedError as refusal:
        print(json.dumps(refusal.answer()))
        return
    expected = parse_expected(path.read_text(errors="replace")) if path.exists() else {}
    differ = {role: list_differing_variables(request, role, expected) for role in request["pids"]}
    print(
        json.dumps({"differ": {role: differing for role, differing in differ.items() if differing}})
    )


def parse_expected(text: str) -> dict[str, str | None]:
    """Return the variables to compare: those whose value the shell does not look up first."""
    exports = parse_exports(text)
    return {name: value for name, value in exports.items() if "$" not in (value or "")}


def list_differing_variables(
    request: dict[str, Any], role: str, expected: dict[str, str | None]
) -> list[str]:
    """Return the variables that the program in `role` has with values other than `expected`."""
    pid = request["pids"][role]
    container = request["containers"].get(role)
    for candidate in (
        [pid, *list_child_processes(pid)] if container else [pid]
    ):  # the first may be the engine's init
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            assignments = (
                read_process_environment(candidate, request["cli"], container)
                .decode(errors="replace")
                .split("\0")
            )
            actual = dict(
                assignment.split("=", 1) for assignment in assignments if "=" in assignment
            )
            if CLUSTER_VARIABLE in actual:
                return sorted(name for name, value in expected.items() if actual.get(name) != value)
    return []


def list_child_processes(pid: int) -> list[int]:
    """Return the children of a process."""
    with contextlib.suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def read_process_environment(pid: int, cli: str, container: str | None) -> bytes:
    """Return the environment of a process; one in a container may be another user's."""
    if container is None:
        return Path(f"/proc/{pid}/environ").read_bytes()
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    inside = next(line for line in status if line.startswith("NSpid:")).split()[-1]
    command = [cli, "exec", container, "cat", f"/proc/{inside}/environ"]
    return subprocess.run(command, stdout=subprocess.PIPE, timeout=PATIENCE, check=True).stdout


if __name__ == "__main__":
    main()
