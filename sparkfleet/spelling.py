"""The nearest name to a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable

NEAR = 0.75  # difflib's ratio
NEARER = 0.85
FEW = 8
MAX_MEANT = 5  # names of a question


def did_you_mean(name: str, candidates: Iterable[str], *, ratio: float = NEAR) -> str | None:
    """Return a question with the candidate closest to `name`, or None if none is near."""
    match = find_similar(name, candidates, ratio=ratio)
    return f"did you mean {match!r}?" if match else None


def find_similar(name: str, candidates: Iterable[str], *, ratio: float = NEAR) -> str | None:
    """Return the candidate closest to `name`, or None if none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 - only where something is wrong

    return next(iter(get_close_matches(name, list(candidates), 1, ratio)), None)


def is_typing_slip(name: str, meant: str) -> bool:
    """Return whether one letter is missing, added, wrong, or swapped with the next."""
    at = 0
    while name[at : at + 1] == meant[at : at + 1] != "":
        at += 1
    rest, expected = name[at:], meant[at:]
    while rest and expected and rest[-1] == expected[-1]:
        rest, expected = rest[:-1], expected[:-1]
    swapped = len(rest) == len(expected) == 2 and rest == expected[::-1]
    return swapped or (len(rest) <= 1 and len(expected) <= 1)


def suggest_similar(
    name: str, candidates: Iterable[str], *, kind: str = "known", lister: str = ""
) -> str:
    """Return a hint: the candidates that contain `name`, else the closest one, else all of them.

    `kind`, such as ``tasks``, comes before a list. Where all are too many for one, the hint names
    the task `lister`, which lists them.
    """
    names = sorted(candidates)
    if len(name) > 1 and (
        holding := [candidate for candidate in names if name.lower() in candidate.lower()]
    ):
        if len(holding) > MAX_MEANT:
            return f"{kind}: {', '.join(holding)}"
        return f"did you mean {' or '.join(map(repr, holding))}?"
    hint = f"{kind}: {', '.join(names)}" if names else "there are none"
    if lister and len(names) > FEW:
        hint = f"to list the {kind}: {lister}"
    return did_you_mean(name, names) or hint
