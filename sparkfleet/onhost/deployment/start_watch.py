"""Watch the roles of a deployment on this host until it serves, one of them dies, or we leave.

Request: ``{"folder": ..., "roles": ["ray", "serve"], "health": URL or null, "tick": s}``.
Answers one JSON line about every tick, so that silence means that the host is lost:
``{"dead": [roles], "health": bool, "lines": [new lines of the last role's log], "guard": text}``;
the text is that of the memory guard's file, once a role is dead.
Ends by itself when standard input ends, which is how a lost connection shows.
"""

from __future__ import annotations

import json
import os
import select
import sys
from pathlib import Path
from typing import Any

from sparkfleet.onhost.shared.deployment_record import list_boot_roles, read_deployment_record
from sparkfleet.onhost.shared.labels import GUARD_RECORD
from sparkfleet.onhost.shared.reading import is_same_process, open_regular_file, read_optional_text
from sparkfleet.onhost.shared.vitals import ask_endpoint

OK = 200
MAX_LINES = 200  # in one report


def main() -> None:
    """Report until the end."""
    request = json.loads(sys.stdin.readline())
    folder = Path(request["folder"])
    started = list_boot_roles(read_deployment_record(folder))
    roles = {role: started.get(role) for role in request["roles"]}
    log = LogFollower(folder / "logs" / f"{request['roles'][-1]}.log")
    while True:
        dead = sorted(role for role, process in roles.items() if not is_role_alive(process))
        health = request["health"] is not None and is_endpoint_healthy(request["health"])
        report = {"dead": dead, "health": health, "lines": log.read_new_lines()}
        report["guard"] = read_optional_text(folder / GUARD_RECORD) if dead else None
        print(json.dumps(report), flush=True)
        if dead or health:
            return
        if select.select([sys.stdin], [], [], request["tick"])[0] and not sys.stdin.read(1):
            return


class LogFollower:
    """A file that grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""

    def read_new_lines(self) -> list[str]:
        """Return the whole lines that were added since the last call."""
        try:
            with open_regular_file(self._path, os.O_NOFOLLOW) as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return []
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [line.decode(errors="replace") for line in lines[-MAX_LINES:]]


def is_role_alive(process: dict[str, Any] | None) -> bool:
    """Return whether the process that was started as a role still runs."""
    return process is not None and is_same_process(process["pid"], process["began"])


def is_endpoint_healthy(url: str) -> bool:
    """Return whether `url` answers with 200 within two seconds."""
    return ask_endpoint(url, "", patience=2).status == OK


if __name__ == "__main__":
    main()
