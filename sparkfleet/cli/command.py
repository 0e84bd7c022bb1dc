"""The decorator of every task: errors become sentences and exit codes, never tracebacks."""

from __future__ import annotations

import functools
import inspect
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from invoke.parser.argument import Argument
from invoke.tasks import Task, task

from sparkfleet.cli import signals
from sparkfleet.cli.views.screen import create_screen
from sparkfleet.errors import (
    HostError,
    MixedError,
    Problem,
    SparkfleetError,
    UnreachableError,
    UsageError,
)
from sparkfleet.report import json
from sparkfleet.report.visible import escape_control

OPTIONS = {
    "inventory": "inventory file or folder; may be given more than once",
    "recipe": "what to serve: a name from recipes.list, or a file",
    "tp": "tensor-parallel size: how many Sparks share each layer",
    "pp": "pipeline-parallel size; the group has tp x pp Sparks",
    "executor": "ray, mp or auto: what joins several hosts",
    "solo": "one Spark: no fabric, no Ray",
    "cluster": "which one, where the inventory names several in `clusters`",
    "limit": "only these hosts, as an Ansible pattern: spark-01, sparks[0:1], all:!spark-03",
    "check": "show what would change, and change nothing",
    "diff": "show the difference of every rendered file",
    "set": "set a variable for all hosts: --set vllm_port=8001; may be given more than once",
    "forks": "hosts that are worked on at the same time",
    "lock-wait": "seconds to wait for the lock of the cluster",
    "allow-degraded": "start over links that the gate refuses; the reason goes into the receipt",
    "verbose": "show every check and all output, not only what found or changed something",
    "tags": "only tasks with one of these tags, and `always`; with commas, or more than once",
    "skip-tags": "no tasks with one of these tags",
    "start-at": "begin with the task of this name; a glob",
    "list-tasks": "show the tasks, and touch no host",
    "list-hosts": "show the hosts of each play, and touch none",
    "ask-become-pass": "ask once for the password of sudo, before any host is touched",
    "output": "text, or json: one document on standard output when the run has ended",
    "junit": "write a JUnit report to this file",
}


# Those of Ansible, fixed, where invoke would choose letters that shift with every new option.
LETTERS = {
    "inventory": "i",
    "limit": "l",
    "set": "e",
    "check": "C",
    "diff": "D",
    "forks": "f",
    "tags": "t",
    "verbose": "v",
    "ask_become_pass": "K",
}


class _CommandTask(Task[Any]):
    """A task whose options have Ansible's letters, and need a value also where they repeat."""

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:  # noqa: FBT001 - invoke's
        """Return the arguments of the task."""
        arguments = super().get_arguments(ignore_unknown_help)
        for argument in arguments:
            if argument.kind is list:
                argument.raw_value = None  # invoke takes its [] for a value that was given
            if argument.name in LETTERS:
                argument.names = (*argument.names, LETTERS[argument.name])
        return arguments


def command(**settings: Any) -> Callable[[Callable[..., int | None]], Task[Any]]:
    """Make a task of a function that returns an exit code, or None for 0.

    Of several tasks on a line each begins where the one before has ended with 0.
    """
    helps = settings.pop("help", {})

    def decorate(function: Callable[..., int | None]) -> Task[Any]:
        @functools.wraps(function)
        def body(*args: Any, **kwargs: Any) -> None:
            signals.install_signal_handlers()
            if code := _run_task(function, args, kwargs):
                sys.exit(code)

        names = [name.replace("_", "-") for name in inspect.signature(function).parameters]
        texts = {name: OPTIONS[name] for name in names if name in OPTIONS} | helps
        wrapped: Task[Any] = task(
            klass=_CommandTask, auto_shortflags=False, help=texts, **settings
        )(body)
        return wrapped

    return decorate


def _run_task(function: Callable[..., int | None], args: Any, kwargs: Any) -> int:
    try:
        _check_empty_options(kwargs)
        return _call_task(function, args, kwargs) or 0
    except SparkfleetError as error:
        print_error(error)
        if error.reported:
            return error.exit_code
        problems = [
            problem for each in (error, *error.others) for problem in _serialize_problems(each)
        ]
        return _write_error_document(kwargs, problems, compute_error_exit_code(error))
    except KeyboardInterrupt:
        create_screen(sys.stderr).line("interrupted", "bold red")
        return _write_error_document(
            kwargs, [json.serialize_problem(Problem(message="interrupted"))], 130
        )
    except Exception as error:  # noqa: BLE001 - whatever else escapes is our bug, and is told as one
        return _write_error_document(
            kwargs, [json.serialize_problem(Problem(message=_report_bug(error)))], 1
        )


def _call_task(function: Callable[..., int | None], args: Any, kwargs: Any) -> int | None:
    """Call a task; what this machine refuses it is no bug, but raises UsageError."""
    try:
        return function(*args, **kwargs)
    except OSError as error:
        if error.filename is None:
            raise
        raise UsageError(
            f"{error.filename}: {error.strerror}", hint=f"look at it: ls -ld {error.filename}"
        ) from error
    except RuntimeError as error:
        if "home directory" not in str(error):  # pathlib's word for it
            raise
        raise UsageError("you have no home folder here", hint="name one: HOME=FOLDER") from error


def _check_empty_options(options: Mapping[str, Any]) -> None:
    """Raise UsageError for an option that was given nothing, as by a variable that is not set."""
    for name, value in options.items():
        if value == "" or (isinstance(value, list) and "" in value):
            raise UsageError(
                f"--{name.replace('_', '-')} is empty", hint="give it a value, or leave it out"
            )


def _serialize_problems(error: SparkfleetError) -> Iterator[dict[str, Any]]:
    host = error.host if isinstance(error, HostError) else None
    yield from ({**json.serialize_problem(problem), "host": host} for problem in error.problems)


def _write_error_document(
    options: Mapping[str, Any], errors: Sequence[Mapping[str, Any]], code: int
) -> int:
    """Print the document of a task that ended before its own, where one was asked for."""
    if options.get("output") == "json":
        json.write_document(json.build_document(errors=errors, exit_code=code), sys.stdout)
    return code


def compute_error_exit_code(error: SparkfleetError) -> int:
    """Return the exit code of `error` with those of further hosts."""
    codes = {failure.exit_code for failure in (error, *error.others)}
    both = {HostError.exit_code, UnreachableError.exit_code} <= codes
    return MixedError.exit_code if both else error.exit_code


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
    """Tell a bug of ours, with its traceback in a file; return what it is."""
    errors, text = (
        create_screen(sys.stderr),
        f"a bug in sparkfleet: {type(error).__name__}: {error}",
    )
    errors.line(text, "bold red")
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="sparkfleet-bug-", suffix=".log", delete=False, encoding="utf-8"
        ) as file:
            file.write(escape_control("".join(traceback.format_exception(error))))
    except OSError as full:
        errors.line(f"  no file of it could be written: {full.strerror}")
    else:
        errors.line(f"  please report it with {file.name}")
    return text
