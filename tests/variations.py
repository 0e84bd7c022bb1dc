"""Parameters of which only some are tried in every run; the others are variations of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def keep_some(values: Iterable[Any], count: int) -> list[Any]:
    """Return `values` as parameters; all but `count` of them, evenly spread, are thorough tests."""
    every = list(values)
    kept = {at * len(every) // count for at in range(count)}
    return [value if at in kept else _mark(value) for at, value in enumerate(every)]


def _mark(value: Any) -> Any:
    each = value if isinstance(value, tuple) else (value,)
    return pytest.param(*each, marks=pytest.mark.thorough)
