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

from sparkfleet.cli import interrupts
from sparkfleet.cli.screen import screen
from sparkfleet.errors import (
    HostError,
    MixedError,
    Problem,
    SparkfleetError,
    UnreachableError,
    UsageError,
)
from sparkfleet.report import json
from sparkfleet.report.visible import visible

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


class _Task(Task[Any]):
    """A task whose options have Ansible's letters, and need a value also where they repeat."""

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:  # noqa: FBT001 - invoke's
        """Return the arguments of the task."""
        arguments = super().get_arguments(ignore_unknown_help)
        for one in arguments:
            if one.kind is list:
                one.raw_value = None  # invoke takes its [] for a value that was given
            if one.name in LETTERS:
                one.names = (*one.names, LETTERS[one.name])
        return arguments


def command(**settings: Any) -> Callable[[Callable[..., int | None]], Task[Any]]:
    """Make a task of a function that returns an exit code, or None for 0.

    Of several tasks on a line each begins where the one before has ended with 0.
    """
    helps = settings.pop("help", {})

    def decorate(function: Callable[..., int | None]) -> Task[Any]:
        @functools.wraps(function)
        def body(*args: Any, **kwargs: Any) -> None:
            interrupts.listen()
            if code := _guarded(function, args, kwargs):
                sys.exit(code)

        names = [name.replace("_", "-") for name in inspect.signature(function).parameters]
        texts = {name: OPTIONS[name] for name in names if name in OPTIONS} | helps
        made: Task[Any] = task(klass=_Task, auto_shortflags=False, help=texts, **settings)(body)
        return made

    return decorate


def _guarded(function: Callable[..., int | None], args: Any, kwargs: Any) -> int:
    try:
        _check_given(kwargs)
        return _called(function, args, kwargs) or 0
    except SparkfleetError as error:
        show(error)
        if error.documented:
            return error.exit_code
        told = [one for each in (error, *error.others) for one in _problems(each)]
        return _end(kwargs, told, exit_code(error))
    except KeyboardInterrupt:
        screen(sys.stderr).line("interrupted", "bold red")
        return _end(kwargs, [json.problem(Problem(message="interrupted"))], 130)
    except Exception as error:  # noqa: BLE001 - whatever else escapes is our bug, and is told as one
        return _end(kwargs, [json.problem(Problem(message=_bug(error)))], 1)


def _called(function: Callable[..., int | None], args: Any, kwargs: Any) -> int | None:
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


def _check_given(options: Mapping[str, Any]) -> None:
    """Raise UsageError for an option that was given nothing, as by a variable that is not set."""
    for name, value in options.items():
        if value == "" or (isinstance(value, list) and "" in value):
            raise UsageError(
                f"--{name.replace('_', '-')} is empty", hint="give it a value, or leave it out"
            )


def _problems(error: SparkfleetError) -> Iterator[dict[str, Any]]:
    host = error.host if isinstance(error, HostError) else None
    yield from ({**json.problem(one), "host": host} for one in error.problems)


def _end(options: Mapping[str, Any], errors: Sequence[Mapping[str, Any]], code: int) -> int:
    """Print the document of a task that ended before its own, where one was asked for."""
    if options.get("output") == "json":
        json.write(json.document(errors=errors, exit_code=code), sys.stdout)
    return code


def exit_code(error: SparkfleetError) -> int:
    """Return the exit code of `error` with those of further hosts."""
    codes = {one.exit_code for one in (error, *error.others)}
    both = {HostError.exit_code, UnreachableError.exit_code} <= codes
    return MixedError.exit_code if both else error.exit_code


def show(error: SparkfleetError) -> None:
    """Print `error`, and those of further hosts, with their places and hints."""
    errors = screen(sys.stderr)
    for one in (error, *error.others):
        host = f"{one.host}: " if isinstance(one, HostError) else ""
        for problem in one.problems:
            errors.line(f"{host}{problem}", "red")
    if len(error.problems) > 1:
        errors.line(f"{len(error.problems)} problems", "bold red")


def _bug(error: Exception) -> str:
    """Tell a bug of ours, with its traceback in a file; return what it is."""
    errors, text = screen(sys.stderr), f"a bug in sparkfleet: {type(error).__name__}: {error}"
    errors.line(text, "bold red")
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="sparkfleet-bug-", suffix=".log", delete=False, encoding="utf-8"
        ) as file:
            file.write(visible("".join(traceback.format_exception(error))))
    except OSError as full:
        errors.line(f"  no file of it could be written: {full.strerror}")
    else:
        errors.line(f"  please report it with {file.name}")
    return text
