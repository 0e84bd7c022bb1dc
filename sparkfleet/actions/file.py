"""`file`: a folder, an empty file, permissions, or nothing at a path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sparkfleet.actions.action import HostAction, Plan, arg
from sparkfleet.actions.becoming import HELP, become
from sparkfleet.actions.host_files import MODE_HELP, Found, change, look, restore
from sparkfleet.actions.placing import path_faults
from sparkfleet.actions.scene import Scene
from sparkfleet.model import Change
from sparkfleet.remote.link import Link
from sparkfleet.remote.sudo import Sudo


@dataclass(frozen=True, slots=True, kw_only=True)
class FileArgs:
    """The arguments of `file`."""

    path: str = arg("the path on the host")
    state: Literal["file", "directory", "absent", "touch"] = arg(
        "file: it must be there; directory: made with those above it; absent: removed, a folder "
        "only when it is empty; touch: made if missing, its time set to now",
        default="file",
    )
    mode: str | None = arg(MODE_HELP, default=None)
    become: bool | None = arg(HELP, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deeds:
    """What is to be done at a path, each as the program's deed and what it needs."""

    found: Found
    sudo: Sudo
    steps: tuple[Mapping[str, Any], ...]


class File(HostAction[FileArgs]):
    """Make a folder or an empty file, set permissions, or remove. Undo restores what was there."""

    name = "file"
    args_type = FileArgs

    @classmethod
    def faults(cls, args: FileArgs) -> Iterator[str]:
        """Want a path that means the same whoever asks."""
        yield from path_faults("path", args.path, args.mode)
        if args.state == "absent" and args.mode is not None:
            yield "what is absent has no mode"

    def inspect(self, scene: Scene, link: Link) -> Found:
        """Look at the path; keep the content of a file that is to go."""
        args = self.args[link.host.name]
        sudo = become(scene, link.host.name, asked=args.become)
        if args.state == "absent":
            return look(link, args.path, sudo=sudo, follow=False, sha256=None)
        return look(link, args.path, sudo=sudo)

    def decide(self, scene: Scene, host: str, seen: Found) -> Plan:
        """Compare what is there with the state that is asked for."""
        args = self.args[host]
        data = {"path": seen.path, "state": seen.kind, "mode": seen.mode}
        if refusal := _refusal(args, seen):
            skip = scene.options.check and seen.kind == "absent"  # an earlier task may make it
            return Plan(failed=not skip, skip=skip, message=refusal, data=data)
        steps = tuple(_steps(args, seen))
        if not steps:
            return Plan(data=data)
        sudo = become(scene, host, asked=args.become)
        changes = tuple(Change(summary=f"{_verb(step)} {seen.path}") for step in steps)
        return Plan(changes=changes, data=data, work=Deeds(found=seen, sudo=sudo, steps=steps))

    def apply(self, scene: Scene, link: Link, plan: Plan) -> Plan:
        """Do the steps."""
        for step in plan.work.steps:
            change(link, path=plan.work.found.path, sudo=plan.work.sudo, **step)
        return plan

    def undo(self, scene: Scene, link: Link, plan: Plan) -> None:
        """Bring back what was there."""
        restore(link, plan.work.found, sudo=plan.work.sudo)


def _refusal(args: FileArgs, seen: Found) -> str:
    match args.state, seen.kind:
        case "file", "absent":
            return f"there is no {seen.path}; state: touch would make it"
        case "directory", "file" | "link" | "other":
            return f"{seen.path} is no folder"
        case "absent", "directory" if not seen.empty:
            return f"{seen.path} is not empty; to remove a tree write: command: rm -r ..."
        case "absent", "file" if seen.content is None:
            return f"{seen.path} is too large to be kept for undo; write: command: rm ..."
        case "absent", "other":
            return f"{seen.path} is no file, link or folder"
    return ""


def _steps(args: FileArgs, seen: Found) -> Iterator[Mapping[str, Any]]:
    if args.state == "absent":
        if seen.kind != "absent":
            yield {"do": "remove"}
        return
    if seen.kind == "absent":
        kind = "directory" if args.state == "directory" else "file"
        yield {"do": "make", "kind": kind, "mode": args.mode}
        return
    if args.state == "touch":
        yield {"do": "touch"}
    if args.mode is not None and args.mode.zfill(4) != seen.mode:
        yield {"do": "mode", "mode": args.mode}


def _verb(step: Mapping[str, Any]) -> str:
    if step["do"] == "mode":
        return f"set mode {step['mode']} of"
    return f"make {step['kind']}" if step["do"] == "make" else str(step["do"])
