"""The help of a task: how it is typed, and its options with kinds of values and defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from sparkfleet.cli.options import Option
from sparkfleet.command_name import expand_commands

SIZES = ("tp", "pp", "dp")  # depend on the cluster and the recipe
# A docstring that holds only examples loses their indentation when it is formatted.
EXAMPLE = re.compile(r"^(?=\{task:)", re.MULTILINE)


def format_usage(binary: str, task: str, options: Sequence[Option]) -> str:
    """Return the line that shows how a task is typed."""
    needed = [
        option.name.upper() for option in options if option.positional and not option.optional
    ]
    optional = [f"[{option.name.upper()}]" for option in options if option.optional]
    rest = ["[--options]"] if any(not option.positional for option in options) else []
    return " ".join([binary, task, *needed, *optional, *rest])


def format_about(text: str) -> str:
    """Return the docstring of a task for its help, with all examples indented."""
    return expand_commands(EXAMPLE.sub("  ", text))


def list_option_rows(options: Sequence[Option]) -> Iterator[tuple[str, str]]:
    """Yield the flags of each option and its help, by name."""
    for option in sorted(options, key=lambda option: (not option.positional, option.name)):
        yield _format_flags(option), expand_commands(option.help) + format_usual(option)


def _format_flags(option: Option) -> str:
    name = f"--[no-]{option.name}" if option.default is True else f"--{option.name}"
    if option.kind is bool:
        return f"-{option.letter}, {name}" if option.letter else name
    letter = f"-{option.letter} {option.value}, " if option.letter else ""
    return f"{letter}{name}={option.value}"


def format_usual(option: Option) -> str:
    """Return the default in brackets, "" where there is none to be typed."""
    usual = option.usual
    if option.name in SIZES:
        return ""
    if option.kind is bool:
        return " (default: yes)" if usual is True else ""
    if isinstance(usual, str | int | float) and str(usual):
        return f" (default: {usual:g})" if isinstance(usual, float) else f" (default: {usual})"
    return ""


def list_options_of(task: object) -> Sequence[Option]:
    """Return the declared options of a task of the namespace."""
    options: Sequence[Option] = getattr(task, "options", ())
    return options


def find_option(options: Sequence[Option], flag: str) -> Option | None:
    """Return the option that is typed as `flag`: ``--recipe``, ``-i``."""
    by_flag: Mapping[str, Option] = {
        **{f"--{option.name}": option for option in options},
        **{f"-{option.letter}": option for option in options if option.letter},
    }
    return by_flag.get(flag)
