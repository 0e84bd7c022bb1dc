"""List the models on a host, and remove one."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sparkfleet.commands import quote
from sparkfleet.errors import UsageError
from sparkfleet.model import Host
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.errors import build_ssh_command
from sparkfleet.safe_paths import check_relative_path
from sparkfleet.values import convert_count, convert_flag, convert_list, convert_string


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredModel:
    """A model below the weights folder of a host; `staged` if sparkfleet completed it there.

    `bytes` counts what takes room, `partial` the files of downloads that have not ended.
    """

    folder: str
    bytes: int
    files: int
    partial: int
    commits: tuple[str, ...]
    staged: bool

    @property
    def name(self) -> str:
        """The model as people name it: ``ORG/NAME``, or the folder of a bundle."""
        of_hub = self.folder.removeprefix("hub/models--")
        return self.folder if of_hub == self.folder else of_hub.replace("--", "/", 1)

    def is_named_in(self, script: str, roots: Collection[str]) -> bool:
        """Whether a start script names this folder below one of `roots`, and not a longer name."""
        below = "|".join(map(re.escape, roots))
        return re.search(rf"(?:{below})/{re.escape(self.folder)}(?![\w.-])", script) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalResult:
    """The files that were removed, and those left because sparkfleet did not stage them."""

    files: int
    freed: int
    left: tuple[str, ...]


def list_stored_models(connection: Connection, root: str) -> tuple[StoredModel, ...]:
    """Return the models below `root` on the host of `connection`."""
    return connection.query("weights/store", {"root": root, "do": "list"}, _parse_models)


def _parse_models(answer: Mapping[str, Any]) -> tuple[StoredModel, ...]:
    return tuple(map(_parse_model, convert_list(answer["models"])))


def _parse_model(row: Mapping[str, Any]) -> StoredModel:
    counts = {name: convert_count(row[name]) for name in ("bytes", "files", "partial")}
    return StoredModel(
        folder=check_relative_path("folder of a model", row["folder"]),
        commits=tuple(map(convert_string, convert_list(row["commits"]))),
        staged=convert_flag(row["staged"], strict=True),
        **counts,
    )


def remove_stored_model(connection: Connection, root: str, model: StoredModel) -> RemovalResult:
    """Remove the files of a `model` that sparkfleet staged; raises UsageError for another one."""
    if not model.staged:
        raise UsageError(
            f"{connection.host.name}: {model.name} was not staged by sparkfleet",
            hint=f"to remove it: {_build_removal(connection.host, root, model.folder)}",
        )
    request = {"root": root, "do": "remove", "folder": model.folder}
    return connection.query("weights/store", request, _parse_removal)


def _build_removal(host: Host, root: str, folder: str) -> str:
    """Return the command that removes a folder by hand; its name is a text of the host."""
    path = f"{root}/{folder}"
    home = "~/" if path.startswith("~/") else ""  # a shell expands it only without quotes
    command = f"rm -r {home}{quote([path.removeprefix(home)])}"
    is_local = host.get("ansible_connection") == "local"
    return command if is_local else build_ssh_command(host, command)


def _parse_removal(answer: Mapping[str, Any]) -> RemovalResult:
    return RemovalResult(
        files=convert_count(answer["removed"]),
        freed=convert_count(answer["freed"]),
        left=tuple(map(convert_string, convert_list(answer["left"]))),
    )
