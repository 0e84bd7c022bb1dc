"""The variables of a deployment's environment file, as the shell reads it."""

from __future__ import annotations

import shlex


def parse_exports(text: str) -> dict[str, str | None]:
    """Return the variables that the file exports, None for one that it unsets.

    References to other variables (``$HOME``) stay as they are. A file that the shell cannot parse
    has no variables.
    """
    exported: dict[str, str | None] = {}
    try:
        words = iter(shlex.split(text, comments=True))
    except ValueError:
        return exported
    for word in words:
        if word == "unset":
            exported[next(words, "")] = None
        elif word == "export":
            name, _, value = next(words, "").partition("=")
            exported[name] = value
    exported.pop("", None)  # a last word without a name
    return exported
