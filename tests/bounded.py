"""Calls that must end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")
LIMIT = 60.0  # seconds, after which a call counts as one that never ends


def call_bounded(work: Callable[[], Answer]) -> Answer:
    """Return what `work` returns; fails where it does not end."""
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(work()), daemon=True)
    thread.start()
    thread.join(LIMIT)
    assert not thread.is_alive(), "it waits for ever"
    return answers[0]
