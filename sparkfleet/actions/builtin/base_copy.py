"""Base of `copy` and `template`, which write content to a path of every host."""

from __future__ import annotations

import hashlib
import shlex
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sparkfleet.actions.action import HostAction, Plan, arg
from sparkfleet.actions.builtin.become import HELP, resolve_become
from sparkfleet.actions.builtin.host_files import (
    MODE,
    MODE_HELP,
    PathState,
    change_path,
    check_replaceable,
    inspect_path,
    put_file,
    restore_path,
)
from sparkfleet.actions.run_context import RunContext
from sparkfleet.errors import PlaybookError, Where
from sparkfleet.model import Change, Host
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import Answers
from sparkfleet.remote.sudo import Sudo
from sparkfleet.resources import expand_home, find_data_file


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseCopyArgs:
    """The arguments that `copy` and `template` share."""

    dest: str = arg("path on the host; if it is a folder, the name is kept")
    mode: str | None = arg(f"{MODE_HELP}; unchanged, or by umask, by default", default=None)
    validate: str = arg(
        "a command that checks the new file, given as %s, before it is installed", default=""
    )
    become: bool | None = arg(HELP, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyWork:
    """The new content of a path, and its present state."""

    content: bytes
    current: PathState
    mode: str | None
    sudo: Sudo
    validate: tuple[str, ...] = ()

    @property
    def sha256(self) -> str:
        """The hash of the content."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def differs(self) -> bool:
        """Whether the content must be written."""
        return self.current.sha256 != self.sha256


P = TypeVar("P", bound=BaseCopyArgs)


class BaseCopy(HostAction[P]):
    """Writes content atomically; undo restores the previous content."""

    undoes = True

    @classmethod
    def validate_args(cls, args: P) -> Iterator[str]:
        """Require a path that does not depend on the working directory, and octal permissions."""
        yield from check_path_args("dest", args.dest, args.mode)
        yield from _check_validate_command(args.validate)

    @abstractmethod
    def content(self, run: RunContext, host: str) -> bytes:
        """Return the content for the host."""

    @abstractmethod
    def file_name(self, host: str) -> str:
        """Return the file name for a folder as destination, "" if it has none."""

    def inspect_all(self, run: RunContext, hosts: tuple[Host, ...]) -> Answers[CopyWork]:
        """Build every host's content, then inspect the path."""
        contents = {host.name: self.content(run, host.name) for host in hosts}
        return run.pool.map(
            lambda connection: self._inspect_host(run, connection, contents),
            hosts,
            repeatable=True,
        )

    def _inspect_host(
        self, run: RunContext, connection: Connection, contents: dict[str, bytes]
    ) -> CopyWork:
        host = connection.host.name
        args = self.args[host]
        content = contents[host]
        sudo = resolve_become(run, host, requested=args.become)
        digest = hashlib.sha256(content).hexdigest()
        current = inspect_path(
            connection, args.dest, sudo=sudo, into=self.file_name(host), sha256=digest
        )
        placed = CopyWork(
            content=content,
            current=current,
            mode=args.mode,
            sudo=sudo,
            validate=tuple(shlex.split(args.validate)),
        )
        if placed.differs:
            check_replaceable(connection, current)
        return placed

    def decide(self, run: RunContext, host: str, inspected: CopyWork) -> Plan:
        """Compare content and permissions."""
        changes = tuple(_copy_changes(inspected))
        data = {"dest": inspected.current.path, "sha256": inspected.sha256}
        return Plan(changes=changes, data=data, work=inspected if changes else None)

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Write the content, or only change the permissions."""
        placed: CopyWork = plan.work
        path = placed.current.path
        sudo = placed.sudo
        if placed.differs:
            check = placed.validate
            put_file(connection, path, placed.content, mode=placed.mode, sudo=sudo, validate=check)
        else:
            change_path(connection, "mode", path, sudo=sudo, mode=placed.mode)
        return plan

    def undo(self, run: RunContext, connection: Connection, plan: Plan) -> None:
        """Restore the previous content."""
        restore_path(connection, plan.work.current, sudo=plan.work.sudo)


def _check_validate_command(command: str) -> Iterator[str]:
    if command and "%s" not in command:
        yield "validate must contain %s, the path of the new file"
    try:
        shlex.split(command)
    except ValueError as error:
        yield f"validate cannot be split into words: {error}"


def check_path_args(name: str, path: str, mode: str | None) -> Iterator[str]:
    """Yield the problems of a path on a host and of its permissions."""
    if not path.startswith(("/", "~")):
        yield f"{name} must begin with / or ~ (got {path!r})"
    if mode is not None and not MODE.fullmatch(mode):
        yield f"mode must be {MODE_HELP} (got {mode!r})"


def find_local_file(kind: str, name: str, where: Where | None) -> Path:
    """Return the file `name` of the control machine for a task at `where`.

    Searched, as in Ansible, in the folder `kind` next to the playbook and in the playbook's folder;
    then in the project's `kind`, the shipped one, and the current folder. Raises PlaybookError.
    """
    folder = Path(where.file).parent if where else Path()
    path = expand_home(name)
    places: list[Any] = [folder / kind / path, folder / path, find_data_file(kind, name), path]
    for place in places:
        if place is not None and place.is_file():
            return Path(place)
    raise PlaybookError(
        f"file {name!r} not found",
        where=where,
        hint=f"put it in {kind}/, next to the playbook or in the project",
    )


def _copy_changes(placed: CopyWork) -> Iterator[Change]:
    current = placed.current
    if placed.differs:
        try:
            after: str | None = placed.content.decode()
        except UnicodeDecodeError:
            after = None
        yield Change(
            summary=f"write {current.path}", path=current.path, before=current.text, after=after
        )
    elif placed.mode is not None and placed.mode.zfill(4) != current.mode:
        yield Change(summary=f"mode of {current.path}: {current.mode} -> {placed.mode}")
