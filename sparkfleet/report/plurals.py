"""Counts with their nouns: ``1 file``, ``2 files``."""

from __future__ import annotations


def format_plural(count: int, noun: str) -> str:
    """Return `count` and `noun`, with an s unless there is exactly one."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
