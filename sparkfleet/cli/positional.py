"""Optional positional arguments: invoke has none, so one is positional only where it is typed."""

from __future__ import annotations

import sys
from collections.abc import Collection
from itertools import pairwise


def is_argument_typed(task: str, with_value: Collection[str] = ()) -> bool:
    """Return whether the command line has an argument without a name after `task`.

    `with_value` names the options of the task whose value is a word of its own.
    """
    words = sys.argv
    after = words[words.index(task) :] if task in words else ()
    return any(
        word == "-" or not word.startswith("-")
        for before, word in pairwise(after)
        if before not in with_value
    )
