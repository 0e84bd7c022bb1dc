"""The nearest name to a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable

NEAR = 0.75  # difflib's ratio
NEARER = 0.85
FEW = 8


def did_you_mean(name: str, candidates: Iterable[str], *, ratio: float = NEAR) -> str | None:
    """Return a question with the one of `known` that is most alike, or None if none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 - only where something is wrong

    matches = get_close_matches(name, list(candidates), 1, ratio)
    return f"did you mean {matches[0]!r}?" if matches else None


def suggest_similar(name: str, candidates: Iterable[str], *, lister: str = "") -> str:
    """Return a sentence with the names that hold `name`, the one closest to it, or all of them.

    Of more than a few all are named by the task `lister` only.
    """
    names = sorted(candidates)
    if len(name) > 1 and (
        holding := [candidate for candidate in names if name.lower() in candidate.lower()]
    ):
        return f"did you mean {' or '.join(map(repr, holding))}?"
    hint = "known: " + ", ".join(names) if names else "there are none"
    if lister and len(names) > FEW:
        hint = f"{lister} shows those that there are"
    return did_you_mean(name, names) or hint
