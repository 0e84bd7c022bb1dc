"""`shell`: run a shell script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from sparkfleet.actions.action import arg
from sparkfleet.actions.builtin.base_command import BaseCommand, BaseCommandArgs


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellArgs(BaseCommandArgs):
    """The arguments of `shell`."""

    cmd: str = arg("the script")
    executable: str = arg("the shell that runs it", default="/bin/sh")


class RunShell(BaseCommand[ShellArgs]):
    """Run a shell script; counts as a change unless `creates` or `removes` skips it."""

    name = "shell"
    args_type = ShellArgs
    bare: ClassVar[Mapping[type, str]] = {str: "cmd"}

    def build_argv(self, args: ShellArgs) -> tuple[str, ...]:
        """Pass the script to the shell."""
        return (args.executable, "-c", args.cmd)
