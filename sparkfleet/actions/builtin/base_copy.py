"""What `copy` and `template` have in common: content that belongs at a path of every host."""

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
from sparkfleet.resources import find_data_file


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseCopyArgs:
    """What `copy` and `template` have in common."""

    dest: str = arg("where it belongs on the host; the name is kept where this is a folder")
    mode: str | None = arg(f"{MODE_HELP}; kept, or the umask's, by default", default=None)
    validate: str = arg(
        "a command that must accept the new file, written %s, before it takes its place", default=""
    )
    become: bool | None = arg(HELP, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyWork:
    """What belongs at a path, and what is there."""

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
        """Whether the content is to be written."""
        return self.current.sha256 != self.sha256


P = TypeVar("P", bound=BaseCopyArgs)


class BaseCopy(HostAction[P]):
    """Puts content in place, whole or not at all; undo brings the previous content back."""

    @classmethod
    def validate_args(cls, args: P) -> Iterator[str]:
        """Want a path that means the same whoever asks, and permissions in octal."""
        yield from check_path_args("dest", args.dest, args.mode)
        yield from _check_validate_command(args.validate)

    @abstractmethod
    def content(self, run: RunContext, host: str) -> bytes:
        """Return what belongs on the host."""

    @abstractmethod
    def file_name(self, host: str) -> str:
        """Return the name that it gets in a folder, "" if it has none."""

    def inspect_all(self, run: RunContext, hosts: tuple[Host, ...]) -> Answers[CopyWork]:
        """Make every host's content, then see what is there."""
        contents = {host.name: self.content(run, host.name) for host in hosts}
        return run.pool.map(lambda connection: self._inspect_host(run, connection, contents), hosts)

    def _inspect_host(
        self, run: RunContext, connection: Connection, contents: dict[str, bytes]
    ) -> CopyWork:
        host = connection.host.name
        args, content = self.args[host], contents[host]
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
        path, sudo = placed.current.path, placed.sudo
        if placed.differs:
            check = placed.validate
            put_file(connection, path, placed.content, mode=placed.mode, sudo=sudo, validate=check)
        else:
            change_path(connection, "mode", path, sudo=sudo, mode=placed.mode)
        return plan

    def undo(self, run: RunContext, connection: Connection, plan: Plan) -> None:
        """Bring back what was there."""
        restore_path(connection, plan.work.current, sudo=plan.work.sudo)


def _check_validate_command(command: str) -> Iterator[str]:
    if command and "%s" not in command:
        yield "validate names the new file as %s"
    try:
        shlex.split(command)
    except ValueError as error:
        yield f"validate cannot be split into words: {error}"


def check_path_args(name: str, path: str, mode: str | None) -> Iterator[str]:
    """Yield what is wrong with a path on a host, and with permissions."""
    if not path.startswith(("/", "~")):
        yield f"{name} begins with / or ~, not {path!r}"
    if mode is not None and not MODE.fullmatch(mode):
        yield f"mode is {MODE_HELP}, not {mode!r}"


def find_local_file(kind: str, name: str, where: Where | None) -> Path:
    """Return the file `name` of the control machine that a task at `where` means.

    It is looked for, as Ansible does, in the folder `kind` beside the playbook and beside the
    playbook itself; then in the project's `kind`, in what is shipped, and here. Raises
    PlaybookError.
    """
    beside = Path(where.file).parent if where else Path()
    path = Path(name).expanduser()
    places: list[Any] = [beside / kind / path, beside / path, find_data_file(kind, name), path]
    for place in places:
        if place is not None and place.is_file():
            return Path(place)
    raise PlaybookError(
        f"there is no file {name!r}",
        where=where,
        hint=f"put it into {kind}/, beside the playbook or in the project",
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
