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
from sparkfleet.actions.becoming import HELP, become
from sparkfleet.actions.host_files import (
    MODE,
    MODE_HELP,
    Found,
    change,
    look,
    put,
    replaceable,
    restore,
)
from sparkfleet.actions.scene import Scene
from sparkfleet.errors import PlaybookError, Where
from sparkfleet.model import Change, Host
from sparkfleet.remote.link import Link
from sparkfleet.remote.pool import Answers
from sparkfleet.remote.sudo import Sudo
from sparkfleet.resources import find


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacingArgs:
    """What `copy` and `template` have in common."""

    dest: str = arg("where it belongs on the host; the name is kept where this is a folder")
    mode: str | None = arg(f"{MODE_HELP}; kept, or the umask's, by default", default=None)
    validate: str = arg(
        "a command that must accept the new file, written %s, before it takes its place", default=""
    )
    become: bool | None = arg(HELP, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """What belongs at a path, and what is there."""

    content: bytes
    found: Found
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
        return self.found.sha256 != self.sha256


P = TypeVar("P", bound=PlacingArgs)


class Placing(HostAction[P]):
    """Puts content in place, whole or not at all; undo brings the previous content back."""

    @classmethod
    def faults(cls, args: P) -> Iterator[str]:
        """Want a path that means the same whoever asks, and permissions in octal."""
        yield from path_faults("dest", args.dest, args.mode)
        yield from _validate_faults(args.validate)

    @abstractmethod
    def content(self, scene: Scene, host: str) -> bytes:
        """Return what belongs on the host."""

    @abstractmethod
    def file_name(self, host: str) -> str:
        """Return the name that it gets in a folder, "" if it has none."""

    def look(self, scene: Scene, hosts: tuple[Host, ...]) -> Answers[Placed]:
        """Make every host's content, then see what is there."""
        contents = {host.name: self.content(scene, host.name) for host in hosts}
        return scene.pool.map(lambda link: self._look(scene, link, contents), hosts)

    def _look(self, scene: Scene, link: Link, contents: dict[str, bytes]) -> Placed:
        host = link.host.name
        args, content = self.args[host], contents[host]
        sudo = become(scene, host, asked=args.become)
        wanted = hashlib.sha256(content).hexdigest()
        found = look(link, args.dest, sudo=sudo, into=self.file_name(host), sha256=wanted)
        placed = Placed(
            content=content,
            found=found,
            mode=args.mode,
            sudo=sudo,
            validate=tuple(shlex.split(args.validate)),
        )
        if placed.differs:
            replaceable(link, found)
        return placed

    def decide(self, scene: Scene, host: str, seen: Placed) -> Plan:
        """Compare content and permissions."""
        changes = tuple(_changes(seen))
        data = {"dest": seen.found.path, "sha256": seen.sha256}
        return Plan(changes=changes, data=data, work=seen if changes else None)

    def apply(self, scene: Scene, link: Link, plan: Plan) -> Plan:
        """Write the content, or only change the permissions."""
        placed: Placed = plan.work
        path, sudo = placed.found.path, placed.sudo
        if placed.differs:
            check = placed.validate
            put(link, path, placed.content, mode=placed.mode, sudo=sudo, validate=check)
        else:
            change(link, "mode", path, sudo=sudo, mode=placed.mode)
        return plan

    def undo(self, scene: Scene, link: Link, plan: Plan) -> None:
        """Bring back what was there."""
        restore(link, plan.work.found, sudo=plan.work.sudo)


def _validate_faults(command: str) -> Iterator[str]:
    if command and "%s" not in command:
        yield "validate names the new file as %s"
    try:
        shlex.split(command)
    except ValueError as error:
        yield f"validate cannot be split into words: {error}"


def path_faults(name: str, path: str, mode: str | None) -> Iterator[str]:
    """Yield what is wrong with a path on a host, and with permissions."""
    if not path.startswith(("/", "~")):
        yield f"{name} begins with / or ~, not {path!r}"
    if mode is not None and not MODE.fullmatch(mode):
        yield f"mode is {MODE_HELP}, not {mode!r}"


def source(kind: str, name: str, where: Where | None) -> Path:
    """Return the file `name` of the control machine that a task at `where` means.

    It is looked for, as Ansible does, in the folder `kind` beside the playbook and beside the
    playbook itself; then in the project's `kind`, in what is shipped, and here. Raises
    PlaybookError.
    """
    beside = Path(where.file).parent if where else Path()
    path = Path(name).expanduser()
    places: list[Any] = [beside / kind / path, beside / path, find(kind, name), path]
    for place in places:
        if place is not None and place.is_file():
            return Path(place)
    raise PlaybookError(
        f"there is no file {name!r}",
        where=where,
        hint=f"put it into {kind}/, beside the playbook or in the project",
    )


def _changes(placed: Placed) -> Iterator[Change]:
    found = placed.found
    if placed.differs:
        try:
            after: str | None = placed.content.decode()
        except UnicodeDecodeError:
            after = None
        yield Change(summary=f"write {found.path}", path=found.path, before=found.text, after=after)
    elif placed.mode is not None and placed.mode.zfill(4) != found.mode:
        yield Change(summary=f"mode of {found.path}: {found.mode} -> {placed.mode}")
