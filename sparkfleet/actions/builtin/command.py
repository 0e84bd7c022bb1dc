"""`command`: a program of the user's, without a shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from sparkfleet.actions.action import arg
from sparkfleet.actions.builtin.base_command import BaseCommand, BaseCommandArgs

# What Ansible's `command` expands though it has no shell: `~`, and variables that a host has.
EXPANDED = re.compile(r"^~|\$\{?(HOME|USER|LOGNAME|PATH|SHELL|PWD|LANG|SSH_\w+)\b")
KEYS_IN_TEXT = ("chdir=", "creates=", "removes=", "executable=", "argv=", "cmd=")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandArgs(BaseCommandArgs):
    """The arguments of `command`."""

    cmd: str = arg("the command, split into words as a shell would; no shell sees it", default="")
    argv: tuple[str, ...] = arg("the command as a list of words, instead of cmd", default=())


class RunCommand(BaseCommand[CommandArgs]):
    """Run a program without a shell; a change, unless `creates` or `removes` say otherwise."""

    name = "command"
    args_type = CommandArgs
    bare: ClassVar[Mapping[type, str]] = {str: "cmd", list: "argv"}

    @classmethod
    def validate_args(cls, args: CommandArgs) -> Iterator[str]:
        """Want exactly one command, one that can be split, and Ansible's old k=v form never."""
        yield from super().validate_args(args)
        if bool(args.cmd) == bool(args.argv):
            yield "needs either cmd or argv"
            return
        try:
            argv = shlex.split(args.cmd)
        except ValueError as error:
            yield f"cmd cannot be split into words: {error}"
            return
        if args.cmd and not argv:
            yield "cmd holds no word"
        for word in argv:
            if word.startswith(KEYS_IN_TEXT):
                key = word.partition("=")[0]
                yield f"{word!r} in the text would go to the program; write {key} as an argument"
            elif EXPANDED.search(word):
                yield f"{word!r} stays as it is: expand it with shell, or pass it on with argv"

    def build_argv(self, args: CommandArgs) -> tuple[str, ...]:
        """Split the text as a shell would."""
        return args.argv or tuple(shlex.split(args.cmd))
