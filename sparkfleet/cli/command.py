"""The decorator of every task: errors become messages and exit codes, never tracebacks."""

from __future__ import annotations

import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_type_hints

from invoke.parser.argument import Argument
from invoke.tasks import Task

from sparkfleet.cli import signals
from sparkfleet.cli.exit_codes import compute_error_exit_code
from sparkfleet.cli.options import Group, Option, Options, list_options, parse_options
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.screen import create_screen
from sparkfleet.errors import HostError, Interrupted, Problem, SparkfleetError, UsageError
from sparkfleet.model import EMPTY
from sparkfleet.report import json
from sparkfleet.report.visible import escape_control


class _CommandTask(Task[Any]):
    """A task whose arguments are built from declared options.

    Letters are Ansible's and fixed; invoke would choose letters that shift with every new option.
    """

    options: tuple[Option, ...] = ()

    def __eq__(self, other: object) -> bool:
        """Compare by identity; invoke compares code, which all tasks of `command` share."""
        return self is other

    __hash__ = object.__hash__

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:  # noqa: ARG002, FBT001 - invoke's
        """Return the arguments of the task, the positional ones first."""
        ordered = sorted(self.options, key=lambda option: not option.positional)
        return [_build_argument(option) for option in ordered]


def _build_argument(option: Option) -> Argument:
    argument = Argument(
        names=(option.name, option.letter) if option.letter else (option.name,),
        attr_name=option.attribute if option.attribute != option.name else None,
        kind=option.kind,
        default=option.default,
        help=option.help,
        positional=option.positional,
    )
    if option.kind is list:
        argument.raw_value = None  # invoke takes its [] for a value that was given
    return argument


def command(
    name: str,
    *groups: Group,
    help: Mapping[str, str] = EMPTY,
    whole_cluster: bool = False,
) -> Callable[[Callable[[Any], int | None]], Task[Any]]:
    """Return a decorator that makes a function the task `name`.

    The function takes the task's options and returns its exit code; None is 0. The task offers the
    options of `groups`, and those that the function's options class adds; `help` replaces help
    texts, by field. If a command line has several tasks, each starts after the one before has
    returned 0. With `whole_cluster`, or if the task has no --tp, every host of the cluster counts
    unless a size is given.
    """

    def decorate(function: Callable[[Any], int | None]) -> Task[Any]:
        kind: type[Options] = next(iter(get_type_hints(function).values()))
        offered = list_options(kind, groups)
        every_host = whole_cluster or all(option.field != "tp" for option in offered)

        def body(_context: Any, **typed: Any) -> None:
            signals.install_signal_handlers()

            def run() -> int | None:
                return function(parse_options(kind, name, typed, whole_cluster=every_host))

            if code := run_task(run, output=typed.get("output")):
                sys.exit(code)

        body.__doc__ = function.__doc__
        body.__module__ = function.__module__
        task: _CommandTask = _CommandTask(body, name=name.rpartition(".")[2], positional=[])
        task.options = tuple(
            replace(option, help=help[option.field]) if option.field in help else option
            for option in offered
        )
        return task

    return decorate


def run_task(function: Callable[[], int | None], *, output: str | None = None) -> int:
    """Call `function` and return the exit code; print errors, and a JSON document where asked."""
    try:
        return _call_task(function) or 0
    except SparkfleetError as error:
        print_error(error)
        if error.reported:
            return error.exit_code
        problems = [
            problem
            for failure in (error, *error.others)
            for problem in _serialize_problems(failure)
        ]
        return _write_error_document(output, problems, compute_error_exit_code(error))
    except KeyboardInterrupt:
        create_screen(sys.stderr).line("interrupted", "bold red")
        problem = json.serialize_problem(Problem(message="interrupted"))
        return _write_error_document(output, [problem], Interrupted.exit_code)
    except Exception as error:  # noqa: BLE001 - anything else that escapes is a bug in sparkfleet
        problem = json.serialize_problem(Problem(message=_report_bug(error)))
        return _write_error_document(output, [problem], SparkfleetError.exit_code)


def _call_task(function: Callable[[], int | None]) -> int | None:
    """Call a task; raises UsageError for what this machine refuses, which is not a bug."""
    try:
        return function()
    except OSError as error:
        if error.filename is None:
            raise
        raise UsageError(
            f"{error.filename}: {error.strerror}", hint=f"check it: ls -ld {error.filename}"
        ) from error
    except RuntimeError as error:
        if "home directory" not in str(error):  # pathlib's message
            raise
        raise UsageError("cannot determine your home directory", hint="set HOME") from error


def _serialize_problems(error: SparkfleetError) -> Iterator[dict[str, Any]]:
    host = error.host if isinstance(error, HostError) else None
    yield from ({**json.serialize_problem(problem), "host": host} for problem in error.problems)


def _write_error_document(
    output: str | None, errors: Sequence[Mapping[str, Any]], code: int
) -> int:
    """Print the JSON document of a task that stopped before its own, where one was asked for."""
    if output == "json":
        print_document(errors=errors, exit_code=code)
    return code


def print_error(error: SparkfleetError) -> None:
    """Print `error`, and those of further hosts, with their places and hints."""
    errors = create_screen(sys.stderr)
    for failure in (error, *error.others):
        host = f"{failure.host}: " if isinstance(failure, HostError) else ""
        for problem in failure.problems:
            errors.line(f"{host}{problem}", "red")
    if len(error.problems) > 1:
        errors.line(f"{len(error.problems)} problems", "bold red")


def _report_bug(error: Exception) -> str:
    """Print a bug, write its traceback to a file, and return the message."""
    errors = create_screen(sys.stderr)
    text = f"a bug in sparkfleet: {type(error).__name__}: {error}"
    errors.line(text, "bold red")
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="sparkfleet-bug-", suffix=".log", delete=False, encoding="utf-8"
        ) as file:
            file.write(escape_control("".join(traceback.format_exception(error))))
    except OSError as failure:
        errors.line(f"  its traceback could not be written: {failure.strerror}")
    else:
        errors.line(f"  please report it with {file.name}")
    return text
