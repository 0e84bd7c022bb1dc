"""`file`: make or remove a folder or an empty file, or set its permissions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sparkfleet.actions.action import HostAction, Plan, arg
from sparkfleet.actions.builtin.base_copy import check_path_args
from sparkfleet.actions.builtin.become import HELP, resolve_become
from sparkfleet.actions.builtin.host_files import (
    MODE_HELP,
    PathState,
    change_path,
    inspect_path,
    restore_path,
)
from sparkfleet.actions.run_context import RunContext
from sparkfleet.model import Change
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.sudo import Sudo


@dataclass(frozen=True, slots=True, kw_only=True)
class FileArgs:
    """The arguments of `file`."""

    path: str = arg("the path on the host")
    state: Literal["file", "directory", "absent", "touch"] = arg(
        "file: must exist; directory: created, with its parents; absent: removed, a folder only "
        "if it is empty; touch: created if missing, its time set to now",
        default="file",
    )
    mode: str | None = arg(MODE_HELP, default=None)
    become: bool | None = arg(HELP, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWork:
    """The steps at a path, as requests to the program on the host."""

    current: PathState
    sudo: Sudo
    steps: tuple[Mapping[str, Any], ...]


class ManageFile(HostAction[FileArgs]):
    """Make a folder or an empty file, set permissions, or remove a path. Undo restores it."""

    name = "file"
    args_type = FileArgs
    inspects = True
    undoes = True

    @classmethod
    def validate_args(cls, args: FileArgs) -> Iterator[str]:
        """Require a path that does not depend on the working directory."""
        yield from check_path_args("path", args.path, args.mode)
        if args.state == "absent" and args.mode is not None:
            yield "mode cannot be set with state: absent"

    def inspect(self, run: RunContext, connection: Connection) -> PathState:
        """Inspect the path; keep the content of a file that will be removed."""
        args = self.args[connection.host.name]
        sudo = resolve_become(run, connection.host.name, requested=args.become)
        if args.state == "absent":
            return inspect_path(connection, args.path, sudo=sudo, follow=False, sha256=None)
        return inspect_path(connection, args.path, sudo=sudo)

    def decide(self, run: RunContext, host: str, inspected: PathState) -> Plan:
        """Compare the path with the requested state."""
        args = self.args[host]
        data = {"path": inspected.path, "state": inspected.kind, "mode": inspected.mode}
        if refusal := _explain_refusal(args, inspected):
            skip = run.options.check and inspected.kind == "absent"  # an earlier task may create it
            return Plan(failed=not skip, skip=skip, message=refusal, data=data)
        steps = tuple(_plan_steps(args, inspected))
        if not steps:
            return Plan(data=data)
        sudo = resolve_become(run, host, requested=args.become)
        changes = tuple(Change(summary=f"{_format_step(step)} {inspected.path}") for step in steps)
        return Plan(
            changes=changes, data=data, work=FileWork(current=inspected, sudo=sudo, steps=steps)
        )

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Do the steps."""
        for step in plan.work.steps:
            change_path(connection, path=plan.work.current.path, sudo=plan.work.sudo, **step)
        return plan

    def undo(self, run: RunContext, connection: Connection, plan: Plan) -> None:
        """Restore the previous state."""
        restore_path(connection, plan.work.current, sudo=plan.work.sudo)


def _explain_refusal(args: FileArgs, current: PathState) -> str:
    match args.state, current.kind:
        case "file", "absent":
            return f"{current.path} not found; create it with state: touch"
        case "directory", "file" | "link" | "other":
            return f"{current.path} is not a folder"
        case "absent", "directory" if not current.empty:
            return f"{current.path} is not empty; to remove a tree, use command: rm -r ..."
        case "absent", "file" if current.content is None:
            return f"{current.path} is too large to keep for undo; use command: rm ..."
        case "absent", "other":
            return f"{current.path} is not a file, link or folder"
    return ""


def _plan_steps(args: FileArgs, current: PathState) -> Iterator[Mapping[str, Any]]:
    if args.state == "absent":
        if current.kind != "absent":
            yield {"do": "remove"}
        return
    if current.kind == "absent":
        kind = "directory" if args.state == "directory" else "file"
        yield {"do": "make", "kind": kind, "mode": args.mode}
        return
    if args.state == "touch":
        yield {"do": "touch"}
    if args.mode is not None and args.mode.zfill(4) != current.mode:
        yield {"do": "mode", "mode": args.mode}


def _format_step(step: Mapping[str, Any]) -> str:
    if step["do"] == "mode":
        return f"set mode {step['mode']} of"
    return f"create {step['kind']}" if step["do"] == "make" else str(step["do"])
