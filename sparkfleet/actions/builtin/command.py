"""`command`: run a program without a shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from sparkfleet.actions.action import arg
from sparkfleet.actions.builtin.base_command import BaseCommand, BaseCommandArgs

# Ansible's `command` expands these although it uses no shell: `~`, and the host's variables.
EXPANDED = re.compile(r"^~|\$\{?(HOME|USER|LOGNAME|PATH|SHELL|PWD|LANG|SSH_\w+)\b")
KEYS_IN_TEXT = ("chdir=", "creates=", "removes=", "executable=", "argv=", "cmd=")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandArgs(BaseCommandArgs):
    """The arguments of `command`."""

    cmd: str = arg(
        "the command; split into words like a shell does, but run without one", default=""
    )
    argv: tuple[str, ...] = arg("the command as a list of words, instead of cmd", default=())


class RunCommand(BaseCommand[CommandArgs]):
    """Run a program without a shell; counts as a change unless `creates` or `removes` skips it."""

    name = "command"
    args_type = CommandArgs
    bare: ClassVar[Mapping[type, str]] = {str: "cmd", list: "argv"}

    @classmethod
    def validate_args(cls, args: CommandArgs) -> Iterator[str]:
        """Require exactly one command that can be split, without Ansible's old k=v form."""
        yield from super().validate_args(args)
        if bool(args.cmd) == bool(args.argv):
            yield "requires either cmd or argv"
            return
        try:
            argv = shlex.split(args.cmd)
        except ValueError as error:
            yield f"cmd cannot be split into words: {error}"
            return
        if args.cmd and not argv:
            yield "cmd is empty"
        for word in argv:
            if word.startswith(KEYS_IN_TEXT):
                key = word.partition("=")[0]
                yield f"{word!r} in cmd is passed to the program; make {key} a task argument"
            elif EXPANDED.search(word):
                yield f"{word!r} is not expanded; use shell, or argv to pass it literally"

    def build_argv(self, args: CommandArgs) -> tuple[str, ...]:
        """Split the command like a shell does."""
        return args.argv or tuple(shlex.split(args.cmd))
