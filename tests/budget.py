"""How much a run of the tests tries: examples of a property, and the time that each may take."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import settings

FACTOR = "SPARKFLEET_EXAMPLES"  # an environment variable, which processes inherit
THOROUGH = 5
MAX_EXAMPLES = "SPARKFLEET_MOST_EXAMPLES"  # another number than the next one
MANY = int(os.environ.get(MAX_EXAMPLES, "20000"))  # of inputs from outside, with --thorough
LONGEST = 2.0  # seconds of the processor that an input from outside may take; most take a hundredth
SLOW = 5  # times that in the gate, whose machines may be several times slower and busy


def configure_examples(*, thorough: bool) -> None:
    """Choose how many examples each property tries, before a test module is imported.

    Without --thorough they are the same in every run, so that a gate which passed passes again.
    """
    os.environ.setdefault(FACTOR, str(THOROUGH if thorough else 1))
    settings.register_profile("quick", max_examples=40, derandomize=True, deadline=None)
    settings.register_profile("thorough", max_examples=400, deadline=None)
    settings.load_profile("thorough" if thorough else "quick")


def scale_examples(count: int, *, thorough: int | None = None) -> int:
    """Return how many examples to try: `count` by default, `thorough` of them with --thorough."""
    factor = float(os.environ.get(FACTOR, "1"))
    return thorough if thorough and factor >= THOROUGH else int(count * factor)


@contextmanager
def limit_cpu_time() -> Iterator[None]:
    """Fail where the block takes more than `LONGEST` of the processor; `SLOW` times it in the gate.

    Waiting does not count, nor does what other processes take, so that a busy machine changes
    nothing; what explodes with the length of its input takes far more.
    """
    factor = float(os.environ.get(FACTOR, "1"))
    limit = LONGEST if factor >= THOROUGH else LONGEST * SLOW
    began = time.process_time()
    yield
    taken = time.process_time() - began
    assert taken < limit, f"{taken:.1f} s of the processor"
