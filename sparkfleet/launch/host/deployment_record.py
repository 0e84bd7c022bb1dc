"""Progress of a run on a host, and the deployment to restore if the run fails; pure.

The state is next to the deployment on the host, so any later run finds it, also from another
machine, after a run was killed before it could roll back.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from sparkfleet.model import EMPTY

STATE = "state.json"


class RunStep(enum.StrEnum):
    """Last completed step on a host. From SMOKED on, the new deployment is the good one."""

    BEGUN = "begun"
    STOPPED = "stopped-previous"
    WRITTEN = "files-written"
    RAY = "ray"
    SERVING = "serving"
    READY = "ready"
    SMOKED = "smoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentMetadata:
    """Facts about a deployment besides its files; kept in the record on each host.

    `hosts` are in rank order. `ray_nodes` maps host names to their addresses in Ray, empty without
    Ray; `python` starts the engine's own Python on the head. `aliases` are names of the model
    besides `served_name`. `weights` and `engine` identify bytes outside the files. Time-outs are in
    seconds.
    """

    run: str = ""
    recipe: str = ""
    served_name: str = ""
    aliases: tuple[str, ...] = ()
    listens_on: str = ""  # address of the endpoint, "" in records of earlier versions
    port: int = 0
    tp: int = 1
    pp: int = 1
    dp: int = 1
    executor: str = ""
    hosts: tuple[str, ...] = ()
    ready_timeout: float = 0.0
    ray_address: str = ""
    ray_nodes: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    ray_token_file: str = ""  # as the engine's Python sees it
    join_timeout: float = 0.0
    python: tuple[str, ...] = ()
    weights: str = ""
    engine: str = ""

    def data(self) -> dict[str, Any]:
        """Return the metadata as a JSON object."""
        values = {attribute.name: getattr(self, attribute.name) for attribute in fields(self)}
        return {**values, "ray_nodes": dict(self.ray_nodes)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviousDeployment:
    """A complete deployment of one host: its files (null: absent) and its running roles."""

    files: Mapping[str, str | None] = field(default_factory=lambda: EMPTY)
    hash: str | None = None
    roles: Mapping[str, str] = field(default_factory=lambda: EMPTY)  # role -> script
    cli: str = ""
    about: DeploymentMetadata = field(default_factory=DeploymentMetadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """Progress of the run `run` on a host; `holder` has its user, machine, time and command."""

    run: str
    holder: Mapping[str, str]
    step: RunStep
    previous: PreviousDeployment

    @property
    def finished(self) -> bool:
        """Whether only the receipt is missing: the new deployment passed the smoke test."""
        return self.step is RunStep.SMOKED

    def text(self) -> str:
        """Return the content of the state file."""
        before = self.previous
        previous = {
            "files": dict(before.files),
            "hash": before.hash,
            "roles": dict(before.roles),
            "cli": before.cli,
            "about": before.about.data(),
        }
        content = {"run": self.run, "holder": dict(self.holder), "step": self.step}
        return json.dumps({**content, "previous": previous}, indent=1) + "\n"


def parse_run_progress(text: str | None) -> RunProgress | None:
    """Return the state in a file's text, None if there is none or it is invalid."""
    try:
        content = json.loads(text or "null")
        previous = content["previous"]
        return RunProgress(
            run=content["run"],
            holder=content["holder"],
            step=RunStep(content["step"]),
            previous=PreviousDeployment(
                **{**previous, "about": parse_deployment_metadata(previous["about"])}
            ),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def parse_deployment_metadata(data: Mapping[str, Any] | None) -> DeploymentMetadata:
    """Return the metadata in a record; fields of other versions are ignored."""
    names = {attribute.name for attribute in fields(DeploymentMetadata)}
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in (data or {}).items()
        if name in names
    }
    return DeploymentMetadata(**values)
