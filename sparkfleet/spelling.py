"""The nearest name to a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable

NEAR = 0.75  # difflib's ratio
NEARER = 0.85
FEW = 8


def did_you_mean(name: str, known: Iterable[str], *, ratio: float = NEAR) -> str | None:
    """Return a question with the one of `known` that is most alike, or None if none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 - only where something is wrong

    found = get_close_matches(name, list(known), 1, ratio)
    return f"did you mean {found[0]!r}?" if found else None


def similar(name: str, known: Iterable[str], *, lister: str = "") -> str:
    """Return a sentence with the names that hold `name`, the one closest to it, or all of them.

    Of more than a few all are named by the task `lister` only.
    """
    names = sorted(known)
    if len(name) > 1 and (holding := [one for one in names if name.lower() in one.lower()]):
        return f"did you mean {' or '.join(map(repr, holding))}?"
    told = "known: " + ", ".join(names) if names else "there are none"
    if lister and len(names) > FEW:
        told = f"{lister} shows those that there are"
    return did_you_mean(name, names) or told
