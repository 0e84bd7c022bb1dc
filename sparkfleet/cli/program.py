"""The `sparkfleet` program: invoke's parser with sparkfleet's tasks, messages and exit codes."""

from __future__ import annotations

import inspect
import sys
from typing import Any, NoReturn

from invoke.config import Config
from invoke.exceptions import Exit, ParseError
from invoke.parser import Parser
from invoke.parser.argument import Argument
from invoke.parser.context import ParserContext
from invoke.program import Program

from sparkfleet import __version__
from sparkfleet.cli import completion
from sparkfleet.cli.suggestions import explain_parse_error
from sparkfleet.cli.task_help import (
    format_about,
    format_usage,
    list_option_rows,
    list_options_of,
)
from sparkfleet.cli.tasks import namespace
from sparkfleet.command_name import expand_commands
from sparkfleet.errors import UsageError
from sparkfleet.report import screens

# invoke's other options are about commands that it would run itself: nothing here uses them, and
# somebody who types --dry means --check.
CORE = (
    *("complete", "debug", "help", "list", "list-depth", "list-format"),
    *("print-completion-script", "version", "write-pyc"),
    *("collection", "search-root"),  # where `invoke` finds us
)
BEGIN = """Where to begin:

  {task:init}                       a project for your Sparks
  {task:recipes.list}               which models there are
  {task:hosts.check}                whether the hosts are ready
  {task:cluster.up} --recipe NAME   from the hosts to an endpoint that answers

"""
FORMATS = ("flat", "nested", "json")


class SparkfleetProgram(Program):
    """Explains a mistyped command line, with suggestions, and exits with 5."""

    def run(self, argv: Any = None, exit: bool = True) -> None:  # noqa: A002, ARG002, FBT001, FBT002 - invoke's
        """Parse, then run the tasks."""
        if self._print_completion(list(argv or sys.argv)):
            return
        try:
            self.config = Config(lazy=True)  # do not read invoke's own settings files
            self.parse_core(_move_help_first(argv or sys.argv))
            self.parse_collection()
            self.parse_tasks()
            self.parse_cleanup()
        except (ParseError, ValueError) as error:
            self._refuse(str(error))
        except Exit as end:
            if end.message:
                self._refuse(end.message)
        else:
            self.execute()

    def _print_completion(self, argv: list[str]) -> bool:
        """Print candidates, or the script of a shell, if requested."""
        if argv[1:3] == [completion.COMMAND, "--"]:
            lines = completion.list_candidates(argv[3:])
            screens.write_escaped(sys.stdout, "".join(f"{line}\n" for line in lines))
            return True
        if argv[1:2] != ["--print-completion-script"]:
            return False
        try:
            script = completion.format_script("".join(argv[2:3]), self.binary_names[0])
        except UsageError as error:
            screens.write_escaped(sys.stderr, f"{error}\n")
            sys.exit(UsageError.exit_code)
        screens.write_escaped(sys.stdout, script)
        return True

    def core_args(self) -> list[Argument]:
        """Return the options that may come before a task."""
        every = [*super().core_args(), *self.task_args()]
        return [argument for argument in every if argument.name in CORE]

    def parse_tasks(self) -> None:
        """Parse the tasks and their options; an option is not a positional argument."""
        super().parse_tasks()
        given = [
            argument.value
            for task in self.tasks
            for argument in task.args.values()
            if argument.positional
        ]
        for value in given:
            if value != "-" and value.startswith("-"):
                raise ParseError(f"No idea what '{value}' is!")
        if self.core.remainder and not self.args.complete.value:
            raise ParseError(f"unexpected arguments after --: {self.core.remainder}")
        if (form := self.args["list-format"].value) not in FORMATS:
            raise ParseError(f"--list-format: expected one of {', '.join(FORMATS)} (got {form!r})")

    def _make_parser(self) -> Parser:
        """Return a parser of the tasks that are named: it copies every one that it knows."""
        named = [
            ParserContext(name=name, aliases=aliases, args=self.collection[name].get_arguments())
            for name, aliases in self.collection.task_names.items()
            if any(known in word for known in (name, *aliases) for word in self.argv)
        ]
        return Parser(initial=self.initial_context, contexts=named)

    def print_help(self) -> None:
        """Print the tasks, and how to get their help."""
        screens.write_escaped(sys.stdout, f"Usage: {self.binary} TASK [--options]\n\n")
        screens.write_escaped(sys.stdout, expand_commands(BEGIN))
        self.list_tasks()
        screens.write_escaped(sys.stdout, f"{self.binary} TASK --help explains one\n")

    def print_task_help(self, name: str) -> None:
        """Print how a task is typed, what it does, and its options."""
        options = list_options_of(namespace[name])
        about = format_about(inspect.getdoc(namespace[name]) or "")
        usage = format_usage(self.binary, name, options)
        screens.write_escaped(sys.stdout, f"Usage: {usage}\n\n{about}\n\n")
        if options:
            screens.write_escaped(sys.stdout, "Options:\n\n")
            self.print_columns(list(list_option_rows(options)))

    def task_list_opener(self, extra: str = "") -> str:
        """Return the heading of the list of tasks, that of `invoke`."""
        return str(super().task_list_opener(extra)).replace("Subcommands", "Available tasks")

    def _refuse(self, message: str) -> NoReturn:
        text, hint = explain_parse_error(message, self.argv[1:])
        screens.write_escaped(sys.stderr, f"{text}\n" + (f"  {hint}\n" if hint else ""))
        sys.exit(UsageError.exit_code)


def create_program(binary: str = "sparkfleet") -> SparkfleetProgram:
    """Return the program, ready to run."""
    return SparkfleetProgram(
        name="sparkfleet",
        binary=binary,
        binary_names=[binary, "inv"] if binary == "invoke" else [binary],
        namespace=namespace,
        version=__version__,
    )


def _move_help_first(argv: list[str]) -> list[str]:
    """Return `argv` with the help of a task asked for as invoke wants it; ``help TASK`` is known.

    Else a task with a positional argument takes ``--help`` for that argument.
    """
    if argv[1:2] == ["help"]:
        return [argv[0], "--help", *argv[2:3]]
    task = next((word for word in argv if word in namespace.task_names), None)
    if task and {"--help", "-h"} & {*argv[argv.index(task) :]}:
        return [argv[0], "--help", task]
    return argv
