"""The command line of this process, as it was typed."""

from __future__ import annotations

import sys
from collections.abc import Collection
from itertools import pairwise
from pathlib import Path


def is_argument_typed(task: str, with_value: Collection[str] = ()) -> bool:
    """Return whether the command line has an argument without a name after `task`.

    invoke has no optional positional arguments, so one is positional only where it is typed.
    `with_value` names the options of the task whose value is a word of its own.
    """
    words = sys.argv
    after = words[words.index(task) :] if task in words else ()
    return any(
        word == "-" or not word.startswith("-")
        for before, word in pairwise(after)
        if before not in with_value
    )


def format_command_line() -> str:
    """Return the command line in one line, for the holder of a lock."""
    name = Path(sys.argv[0]).name.replace("__main__.py", "sparkfleet")  # python -m sparkfleet
    return " ".join([name, *sys.argv[1:]])
