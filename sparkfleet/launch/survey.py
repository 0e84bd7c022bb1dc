"""What of a deployment is on a host: its files, its processes, its engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkfleet.launch.deployment import MANAGED
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.link import Link


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What `onhost/deployment.py` saw.

    `hash` is that of the deployment that was started last and not stopped since; `dead` are its
    roles that run no more; `engine` holds package versions by name, None where no environment is
    configured.
    """

    home: str
    folder: str
    files: Mapping[str, str | None]
    hash: str | None
    roles: Mapping[str, str]  # role -> script
    dead: tuple[str, ...]
    processes: tuple[Mapping[str, Any], ...]
    engine: Mapping[str, Any] | None

    @property
    def runs(self) -> bool:
        """Whether all roles of the last start are alive."""
        return self.hash is not None and not self.dead

    def expand(self, path: str) -> str:
        """Return `path` with a leading ``~`` replaced by this host's home."""
        return self.home + path[1:] if path == "~" or path.startswith("~/") else path


def ask_survey(link: Link, settings: Settings, cluster: str) -> Survey:
    """Look at one host; read-only."""
    request = {
        "do": "survey",
        "weights_dir": settings.text("weights_dir"),
        "cluster": cluster,
        "files": list(MANAGED),
        "venv": settings.text("engine_venv") or None,
    }
    return parse(link.ask("deployment", request))


def parse(answer: Mapping[str, Any]) -> Survey:
    """Return the survey in the program's `answer`."""
    record = answer["record"] or {"hash": None, "roles": {}}
    alive = {(process["pid"], process["began"]) for process in answer["processes"]}
    dead = (
        name for name, role in record["roles"].items() if (role["pid"], role["began"]) not in alive
    )
    return Survey(
        home=answer["home"],
        folder=answer["folder"],
        files=answer["files"],
        hash=record["hash"],
        roles={name: role["script"] for name, role in record["roles"].items()},
        dead=tuple(dead),
        processes=tuple(answer["processes"]),
        engine=answer["engine"],
    )
