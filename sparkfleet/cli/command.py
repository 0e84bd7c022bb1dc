"""The decorator of every task: errors become sentences and exit codes, never tracebacks."""

from __future__ import annotations

import functools
import gc
import inspect
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import Any

from invoke.tasks import Task, task

from sparkfleet.cli.screen import screen
from sparkfleet.errors import SparkfleetError

OPTIONS = {
    "inventory": "inventory file or folder; may be given more than once",
    "recipe": "what to serve: a name from recipes.list, or a file",
    "tp": "tensor-parallel size: how many Sparks share each layer",
    "pp": "pipeline-parallel size; the group has tp x pp Sparks",
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
    "v": "the same as --verbose",
    "tags": "only tasks with one of these tags, and `always`; with commas, or more than once",
    "skip-tags": "no tasks with one of these tags",
    "start-at": "begin with the task of this name; a glob",
    "list-tasks": "show the tasks, and touch no host",
    "list-hosts": "show the hosts of each play, and touch none",
    "ask-become-pass": "ask once for the password of sudo, before any host is touched",
    "K": "the same as --ask-become-pass",
    "output": "text, or json: one document on standard output when the run has ended",
    "junit": "write a JUnit report to this file",
}


def command(**settings: Any) -> Callable[[Callable[..., int | None]], Task[Any]]:
    """Make a task of a function that returns an exit code, or None for 0.

    Short flags are off, since they would shift whenever an option is added.
    """
    helps = settings.pop("help", {})

    def decorate(function: Callable[..., int | None]) -> Task[Any]:
        @functools.wraps(function)
        def body(*args: Any, **kwargs: Any) -> None:
            code = _guarded(function, args, kwargs)
            gc.freeze()  # else the interpreter looks for garbage at its end: 60 ms
            sys.exit(code)

        names = [name.replace("_", "-") for name in inspect.signature(function).parameters]
        texts = {name: OPTIONS[name] for name in names if name in OPTIONS} | helps
        made: Task[Any] = task(auto_shortflags=False, help=texts, **settings)(body)
        return made

    return decorate


def _guarded(function: Callable[..., int | None], args: Any, kwargs: Any) -> int:
    try:
        return function(*args, **kwargs) or 0
    except SparkfleetError as error:
        show(error)
        return error.exit_code
    except KeyboardInterrupt:
        screen(sys.stderr).line("interrupted", "bold red")
        return 130
    except Exception as error:  # noqa: BLE001 - whatever else escapes is our bug, and is told as one
        return _bug(error)


def show(error: SparkfleetError) -> None:
    """Print `error` with its places and hints."""
    errors = screen(sys.stderr)
    for problem in error.problems:
        errors.line(str(problem), "red")
    if len(error.problems) > 1:
        errors.line(f"{len(error.problems)} problems", "bold red")


def _bug(error: Exception) -> int:
    with tempfile.NamedTemporaryFile(
        "w", prefix="sparkfleet-bug-", suffix=".log", delete=False, encoding="utf-8"
    ) as file:
        traceback.print_exception(error, file=file)
    errors = screen(sys.stderr)
    errors.line(f"a bug in sparkfleet: {type(error).__name__}: {error}", "bold red")
    errors.line(f"  please report it with {file.name}")
    return 1
