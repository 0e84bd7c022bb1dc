"""One path on a host: its state, changes to it, and their undo."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkfleet.errors import CommandError, InvalidValueError
from sparkfleet.quantities import format_size
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.sudo import NO_SUDO, Sudo, query_with_sudo, run_program_with_sudo
from sparkfleet.values import (
    convert_choice,
    convert_flag,
    convert_integer,
    convert_list,
    convert_string,
)

MODE = re.compile(r"[0-7]{3,4}")
KINDS = ("file", "directory", "link", "other", "absent")
MODE_HELP = 'permissions as quoted octal digits, like "0644"'


@dataclass(frozen=True, slots=True, kw_only=True)
class PathState:
    """State of a path; `content` only of a requested file that differs from the new content."""

    path: str
    kind: str  # file, directory, link, other, absent
    mode: str = ""
    sha256: str = ""
    size: int = 0
    content: bytes | None = None
    target: str = ""
    empty: bool = False
    missing: tuple[str, ...] = ()  # the path and its parents that do not exist

    @property
    def text(self) -> str | None:
        """The content for a diff; None if it is not text, or absent."""
        try:
            return None if self.content is None else self.content.decode()
        except UnicodeDecodeError:
            return None


def inspect_path(
    connection: Connection, path: str, *, sudo: Sudo = NO_SUDO, follow: bool = True, **more: Any
) -> PathState:
    """Return the state of `path` on the host; `more` is passed to the program (into, sha256)."""
    request = {"do": "look", "path": path, "follow": follow, **more}
    return query_with_sudo(connection, "host/files", request, _parse_path_state, sudo=sudo)


def _parse_path_state(answer: Mapping[str, Any]) -> PathState:
    content = answer.get("content")
    mode = convert_string(answer.get("mode", ""))
    if mode and not MODE.fullmatch(mode):
        raise InvalidValueError("octal permissions", mode)
    return PathState(
        path=convert_string(answer["path"]),
        kind=convert_choice(answer["kind"], KINDS),
        mode=mode,
        sha256=convert_string(answer.get("sha256", "")),
        size=convert_integer(answer.get("size", 0), minimum=0, strict=True),
        content=None if content is None else base64.b64decode(content, validate=True),
        target=convert_string(answer.get("target", "")),
        empty=convert_flag(answer.get("empty", False), strict=True),
        missing=tuple(map(convert_string, convert_list(answer.get("missing", [])))),
    )


def change_path(
    connection: Connection, do: str, path: str, *, sudo: Sudo = NO_SUDO, **more: Any
) -> None:
    """Run one step of the program at `path`."""
    run_program_with_sudo(connection, "host/files", {"do": do, "path": path, **more}, sudo=sudo)


def put_file(
    connection: Connection,
    path: str,
    content: bytes,
    *,
    mode: str | None,
    sudo: Sudo = NO_SUDO,
    validate: Sequence[str] = (),
) -> None:
    """Write `content` to `path`, atomically; not if the command `validate` rejects it."""
    digest = hashlib.sha256(content).hexdigest()
    request = {"do": "put", "path": path, "sha256": digest, "mode": mode, "validate": validate}
    run_program_with_sudo(connection, "host/files", request, sudo=sudo, payload=[content])


def restore_path(connection: Connection, before: PathState, *, sudo: Sudo = NO_SUDO) -> None:
    """Restore a path; raises CommandError if its previous content was not kept."""
    if before.kind == "absent":
        for path in before.missing:
            change_path(connection, "remove", path, sudo=sudo)
    elif before.kind == "directory":
        change_path(connection, "make", before.path, sudo=sudo, kind="directory", mode=before.mode)
    elif before.kind == "link":
        change_path(connection, "remove", before.path, sudo=sudo)
        change_path(connection, "link", before.path, sudo=sudo, target=before.target)
    elif before.content is not None:
        put_file(connection, before.path, before.content, mode=before.mode, sudo=sudo)
    else:
        change_path(connection, "mode", before.path, sudo=sudo, mode=before.mode)


def check_replaceable(connection: Connection, current: PathState) -> None:
    """Raise CommandError if a file cannot be written at the path, or not restored later."""
    if current.kind == "file" and current.content is None:
        message = f"{current.path} is too large to keep for undo: {format_size(current.size)}"
        raise CommandError(message, host=connection.host.name, hint="remove it manually first")
    if current.kind in ("directory", "other"):
        hint = "name the file itself in dest" if current.kind == "directory" else None
        message = f"{current.path} is not a file"
        raise CommandError(message, host=connection.host.name, hint=hint)
