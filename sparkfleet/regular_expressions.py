"""Regular expressions from outside.

Some take longer than anyone would wait, such as ``(a+)+$``. One that might runs in a process of its
own, with limits of processor time and memory, since Python cannot stop a search.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from collections.abc import Sequence
from typing import Any

MAX_TEXT = 10_000  # characters that a simple expression is searched in
MAX_TIME = 1  # seconds of processor time
MAX_MEMORY = 1024**3  # bytes
PATIENCE = 60.0  # seconds for the process on a busy machine
REPEATS = re.compile(r"(?<!\\)[*+{]|\\[1-9]|\(\?P=")
GROUP_REPEATS = re.compile(r"\)[*+{]")
WORKER = f"""
import json, re, resource, sys, warnings
resource.setrlimit(resource.RLIMIT_CPU, ({MAX_TIME}, {MAX_TIME}))
resource.setrlimit(resource.RLIMIT_AS, ({MAX_MEMORY}, {MAX_MEMORY}))
warnings.simplefilter("ignore")
pattern, replacement, texts = json.load(sys.stdin)
search = re.compile(pattern)
if replacement is None:
    answer = [bool(search.match(text)) for text in texts]
else:
    answer = [search.sub(replacement, text) for text in texts]
json.dump(answer, sys.stdout)
"""


class SlowExpressionError(ValueError):
    """A regular expression that takes too long, or too much memory."""


def compile_regex(text: str) -> re.Pattern[str]:
    """Compile `text` without a FutureWarning about syntax that a later Python may read differently.

    Raises re.error, RecursionError and OverflowError, as `re.compile` does.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of [a--b], [[a] and the like
        return re.compile(text)


def match_texts(pattern: str, texts: Sequence[str]) -> list[bool]:
    """Return for each of `texts` whether `pattern` matches at its start.

    Raises what `compile_regex` raises, and SlowExpressionError.
    """
    compiled = compile_regex(pattern)
    if _is_simple(pattern, texts):
        return [compiled.match(text) is not None for text in texts]
    return [bool(found) for found in _search_apart(pattern, None, texts)]


def replace_matches(pattern: str, replacement: str, text: str) -> str:
    """Return `text` with every match of `pattern` replaced; raises what `match_texts` raises."""
    compiled = compile_regex(pattern)
    if _is_simple(pattern, [text]):
        return compiled.sub(replacement, text)
    re.compile(pattern).sub(replacement, "")  # an invalid replacement is an error of its own
    return str(_search_apart(pattern, replacement, [text])[0])


def repeats_at_most(pattern: str, most: int) -> bool:
    """Return whether no group repeats and at most `most` other parts do.

    Then a search takes at most that power of the length of its text.
    """
    return not GROUP_REPEATS.search(pattern) and len(REPEATS.findall(pattern)) <= most


def _is_simple(pattern: str, texts: Sequence[str]) -> bool:
    """Return whether the search takes at most the square of the length of a short text."""
    repeats = len(REPEATS.findall(pattern)) + len(GROUP_REPEATS.findall(pattern))
    return repeats <= 1 and all(len(text) <= MAX_TEXT for text in texts)


def _search_apart(pattern: str, replacement: str | None, texts: Sequence[str]) -> list[Any]:
    request = json.dumps([pattern, replacement, list(texts)])
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", WORKER],
            input=request.encode(),
            capture_output=True,
            timeout=PATIENCE,
            check=True,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise SlowExpressionError(
            f"the regular expression takes more than {MAX_TIME} s: {pattern[:80]}"
        ) from error
    answer: list[Any] = json.loads(done.stdout)
    return answer
