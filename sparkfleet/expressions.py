"""Regular expressions that others wrote."""

from __future__ import annotations

import re
import warnings


def compile_regex(text: str) -> re.Pattern[str]:
    """Return `text` as this Python reads it, without a word on what a later one may read otherwise.

    Raises re.error, RecursionError and OverflowError, as `re.compile`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of [a--b], [[a] and the like
        return re.compile(text)
