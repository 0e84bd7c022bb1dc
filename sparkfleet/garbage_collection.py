"""Garbage collection, paused while a large file is read.

The interpreter looks for cycles whenever some hundred objects are new. While a file of YAML is
read, all of them stay: of 1 MB, that search took half of the time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Collect no garbage inside; also a decorator."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
