"""Every error that a user can meet, as one tree.

::

    SparkfleetError                 exit  what it means
    ├── InputError                     5  something typed or written is wrong; no host was touched
    │   ├── UsageError                    options, tasks, a missing tool on this machine
    │   ├── InventoryError                inventory files
    │   ├── RecipeError                   recipe files
    │   ├── PlaybookError                 playbook files
    │   └── TemplateError                 Jinja in any of them
    ├── HostError                      2  a host answered, and something on it is wrong
    │   ├── CommandError                  a command on it failed
    │   ├── GateError                     a check refused to go on
    │   └── LaunchError                   a rank died, did not join or did not become ready
    ├── UnreachableError               4  a host did not answer
    │   ├── HostKeyError                  it answered with a key that is not in known_hosts
    │   └── AuthenticationError           it refused every key that was offered
    ├── MixedError                     6  some hosts failed and others were unreachable
    ├── LockHeldError                 75  another run holds the cluster
    └── Interrupted                  130  Ctrl-C

Anything else that escapes is a bug and exits with 1. Exit codes: ``docs/exit-codes.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sparkfleet.command_name import expand_commands

MAX_SHOWN = 100  # problems of one error
LONGEST_QUOTE = 60  # characters of a value that a message quotes


def quote_value(value: Any) -> str:
    """Return a value as a message quotes it."""
    quoted = repr(value)
    return quoted if len(quoted) <= LONGEST_QUOTE else quoted[:LONGEST_QUOTE] + "..."


class InvalidValueError(ValueError):
    """A value of another form; the message is the end of a sentence that begins with a name.

    ``vllm_port: expected an integer >= 1 (got 'two')``. A reader adds the place; where the value
    holds a secret, it quotes only `expected`.
    """

    def __init__(self, expected: str, value: Any) -> None:
        super().__init__(f"expected {expected} (got {quote_value(value)})")
        self.expected = expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """A place in a file; lines and columns count from 1."""

    file: str
    line: int | None = None
    col: int | None = None
    excerpt: str | None = None

    def __str__(self) -> str:
        parts = [self.file, self.line, self.col]
        return ":".join(str(part) for part in parts if part is not None)

    def move(self, columns: int) -> Where:
        """Return the place so many columns further on the same line."""
        return Where(
            file=self.file, line=self.line, col=(self.col or 1) + columns, excerpt=self.excerpt
        )

    def format_excerpt(self) -> str:
        """Return the excerpt with a caret under the column, or "" where nothing is to be seen."""
        if not (self.excerpt and self.excerpt.strip()):
            return ""
        caret = "" if self.col is None else "\n" + " " * (self.col - 1) + "^"
        return self.excerpt + caret


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong: what, where, and what to type next.

    A ``{task:cluster.up}`` in `hint` becomes the command that the user types.
    """

    message: str
    where: Where | None = None
    hint: str | None = None

    def __post_init__(self) -> None:
        if self.hint:
            object.__setattr__(self, "hint", expand_commands(self.hint))

    def __str__(self) -> str:
        lines = [f"{self.where}: {self.message}" if self.where else self.message]
        if self.where and (excerpt := self.where.format_excerpt()):
            lines += [f"    {line}" for line in excerpt.splitlines()]
        lines += [f"  {line}" for line in (self.hint or "").splitlines()]  # some are a log's end
        return "\n".join(lines)


class SparkfleetError(Exception):
    """The root: a message, its place, and a hint that says what to type next."""

    exit_code: ClassVar[int] = 1

    def __init__(
        self, message: str, *, where: Where | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.problems: tuple[Problem, ...] = (Problem(message=message, where=where, hint=hint),)
        self.others: tuple[SparkfleetError, ...] = ()  # those of further hosts, that came with it
        self.reported = False  # whether a JSON document has shown it

    @classmethod
    def of(cls, problems: Sequence[Problem]) -> SparkfleetError:
        """Return one error that carries all `problems`, so that none waits for the next run."""
        first, *_ = problems
        error = cls(first.message, where=first.where, hint=first.hint)
        error.problems = tuple(problems)
        return error

    @property
    def message(self) -> str:
        """The first problem's sentence."""
        return self.problems[0].message

    @property
    def hint(self) -> str | None:
        """The hint of the first problem: what to type next."""
        return self.problems[0].hint

    def __str__(self) -> str:
        shown = [str(problem) for problem in self.problems[:MAX_SHOWN]]
        more = len(self.problems) - MAX_SHOWN
        shown += [f"and {more} more problem{'s' if more > 1 else ''}"] if more > 0 else []
        return "\n".join(shown)


class InputError(SparkfleetError):
    """Something that was typed or written is wrong; no host was touched."""

    exit_code = 5


class UsageError(InputError):
    """A task, an option or this machine's own set-up is wrong."""


class InventoryError(InputError):
    """An inventory file is wrong."""


class RecipeError(InputError):
    """A recipe file is wrong."""


class PlaybookError(InputError):
    """A playbook file is wrong."""


class TemplateError(InputError):
    """A Jinja expression cannot be rendered."""


class HostError(SparkfleetError):
    """A host answered, and something on it is wrong."""

    exit_code = 2

    def __init__(
        self,
        message: str,
        *,
        host: str,
        where: Where | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.host = host

    def __str__(self) -> str:
        return f"{self.host}: {super().__str__()}"


class CommandError(HostError):
    """A command on a host failed."""


class GateError(HostError):
    """A check refused to go on."""


class LaunchError(HostError):
    """A rank died, did not join or did not become ready."""


class UnreachableError(HostError):
    """A host did not answer."""

    exit_code = 4


class HostKeyError(UnreachableError):
    """A host answered with a key that is not in known_hosts."""


class AuthenticationError(UnreachableError):
    """A host refused every key that was offered."""


class MixedError(SparkfleetError):
    """Some hosts failed and others were unreachable."""

    exit_code = 6


def combine_exit_codes(*, failed: bool, unreachable: bool) -> int:
    """Return the exit code where some hosts failed or did not answer: 0, 2, 4 or 6."""
    if failed and unreachable:
        return MixedError.exit_code
    if unreachable:
        return UnreachableError.exit_code
    return HostError.exit_code if failed else 0


class LockHeldError(SparkfleetError):
    """Another run holds the cluster."""

    exit_code = 75


class Interrupted(SparkfleetError):  # noqa: N818 - the field's word; an interrupt is not an error
    """Ctrl-C, after the run was undone."""

    exit_code = 130
