"""Command lines as mappings: these programs trust what they are given."""

from __future__ import annotations

from collections.abc import Sequence


def parse(words: Sequence[str]) -> dict[str, str]:
    """Return options without their dashes; a flag is "", a word that belongs to none is ``""``."""
    found: dict[str, str] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            found[name] = value
        else:
            found[name] = f"{found[name]} {word}" if found.get(name) else word
    return found
