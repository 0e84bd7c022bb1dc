"""Progress of a run on a host, and the deployment to restore if the run fails; pure.

The state is next to the deployment on the host, so any later run finds it, also from another
machine, after a run was killed before it could roll back.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from ipaddress import IPv4Address
from typing import Any

from sparkfleet.errors import InvalidValueError
from sparkfleet.model import EMPTY
from sparkfleet.report.visible import escape_line
from sparkfleet.values import (
    convert_integer,
    convert_list,
    convert_mapping,
    convert_number,
    convert_string,
    parse_json,
)

STATE = "state.json"
MAX_LINE = 4096  # characters of a text in a record
MAX_NUMBER = 1 << 31  # no number in a record is near


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
class DeploymentRecord:
    """Record of a deployment on each of its hosts, besides its files.

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
        """Return the record as a JSON object."""
        values = {attribute.name: getattr(self, attribute.name) for attribute in fields(self)}
        return {**values, "ray_nodes": dict(self.ray_nodes)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviousDeployment:
    """A complete deployment of one host: its files (null: absent) and its running roles."""

    files: Mapping[str, str | None] = field(default_factory=lambda: EMPTY)
    hash: str | None = None
    roles: Mapping[str, str] = field(default_factory=lambda: EMPTY)  # role -> script
    cli: str = ""
    about: DeploymentRecord = field(default_factory=DeploymentRecord)


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
        content = parse_json(text or "null")
        holder = convert_mapping(content["holder"])
        return RunProgress(
            run=convert_string(content["run"]),
            holder={name: str(value) for name, value in holder.items()},
            step=RunStep(content["step"]),
            previous=_parse_previous(content["previous"]),
        )
    except (ValueError, TypeError, KeyError):
        return None


def _parse_previous(content: Mapping[str, Any]) -> PreviousDeployment:
    """Return the deployment to restore; raises InvalidValueError or LookupError."""
    files = convert_mapping(content["files"])
    roles = convert_mapping(content["roles"])
    hash_ = content["hash"]
    return PreviousDeployment(
        files={
            name: None if text is None else convert_string(text) for name, text in files.items()
        },
        hash=None if hash_ is None else convert_string(hash_),
        roles={role: convert_string(script) for role, script in roles.items()},
        cli=convert_string(content["cli"]),
        about=parse_deployment_record(content["about"]),
    )


def parse_deployment_record(data: Any, *, strict: bool = False) -> DeploymentRecord:
    """Return the record of a host, which it can have written as it likes.

    Fields of other versions are ignored, and those of another shape too, so that any record can be
    stopped; `strict` raises InvalidValueError for them.
    """
    values: dict[str, Any] = {}
    for attribute in fields(DeploymentRecord):
        if not isinstance(data, Mapping) or attribute.name not in data:
            continue
        try:
            values[attribute.name] = _convert_field(attribute.name, data[attribute.name])
        except ValueError:
            if strict:
                raise
    return DeploymentRecord(**values)


def _convert_field(name: str, value: Any) -> Any:
    """Return a field of the record as its type; raises ValueError."""
    default = getattr(DeploymentRecord(), name)
    if name == "listens_on" and value:
        return str(IPv4Address(convert_string(value)))
    if isinstance(default, str):
        return _check_line(value)
    if isinstance(default, int):
        return convert_integer(value, minimum=0, maximum=MAX_NUMBER, strict=True)
    if isinstance(default, float):
        return convert_number(value, minimum=0, maximum=MAX_NUMBER, strict=True)
    if isinstance(default, tuple):
        return tuple(map(_check_line, convert_list(value)))
    return {_check_line(key): _check_line(item) for key, item in convert_mapping(value).items()}


def _check_line(value: Any) -> str:
    text = convert_string(value)
    if len(text) > MAX_LINE or escape_line(text) != text:
        raise InvalidValueError(f"a line of at most {MAX_LINE} characters", text[:MAX_LINE])
    return text
