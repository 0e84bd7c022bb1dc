"""The `sparkfleet` program: invoke with our tasks built in."""

from __future__ import annotations

import re
import sys
from typing import Any

from invoke.exceptions import ParseError
from invoke.program import Program

from sparkfleet import __version__
from sparkfleet.cli.tasks import namespace
from sparkfleet.spelling import similar

USAGE = 5  # the exit code of anything wrong before the first host is touched


class SparkfleetProgram(Program):
    """Answers a misspelt task with suggestions, and usage errors with our exit code."""

    def run(self, argv: Any = None, exit: bool = True) -> None:  # noqa: A002, FBT001, FBT002 - invoke's
        """Parse, then run the tasks."""
        try:
            super().run(_help_first(argv or sys.argv), exit)
        except ParseError as error:
            self._refuse(str(error))

    def parse_tasks(self) -> None:
        """Parse the tasks; an unknown one is told with those that are close."""
        try:
            super().parse_tasks()
        except ParseError as error:
            self._refuse(str(error))

    def _refuse(self, message: str) -> None:
        found = re.fullmatch(r"No idea what '(.+)' is!", message)
        hint = self._nearest(found[1]) if found else ""
        sys.stderr.write(f"{message}\n" + (f"  {hint}\n" if hint else ""))
        sys.exit(USAGE)

    def _nearest(self, word: str) -> str:
        tasks = list(self.collection.task_names)
        if not word.startswith("-"):
            return similar(word, tasks)
        named = [task for task in self.argv if task in tasks]
        arguments = self.collection[named[-1]].get_arguments() if named else []
        return similar(word, [f"--{argument.name.replace('_', '-')}" for argument in arguments])


def program() -> SparkfleetProgram:
    """Return the program, ready to run."""
    return SparkfleetProgram(
        name="sparkfleet", binary="sparkfleet", namespace=namespace, version=__version__
    )


def _help_first(argv: list[str]) -> list[str]:
    """Return `argv` with the help of a task asked for as invoke wants it.

    Else a task with a positional argument takes ``--help`` for that argument.
    """
    program, *words = argv
    if words and words[0] in namespace.task_names and {"--help", "-h"} & set(words[1:]):
        return [program, "--help", words[0]]
    return argv
