"""In what the deployment that runs on a host differs from the one that is wanted; pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from sparkfleet.launch.secrets import masked
from sparkfleet.launch.survey import Survey
from sparkfleet.launch.transaction import About
from sparkfleet.model import Change

ENVIRONMENT = "nccl.env"


def differences(
    survey: Survey, files: Mapping[str, str], about: About, hash_: str
) -> tuple[Change, ...]:
    """Return each difference of one host, from what it has to what `files` and `about` want."""
    found = [*_states(survey), *_files(survey, files, hash_)]
    if survey.hash is not None:
        found += _beyond_files(survey.about, about)
        if survey.hash != hash_ and not found:
            found.append(Change(summary=f"runs deployment {survey.hash}, not {hash_}"))
    return tuple(found)


def _states(survey: Survey) -> Iterator[Change]:
    if survey.interrupted:
        yield Change(summary="a run was interrupted here")
    if survey.hash is None:
        yield Change(summary="nothing of ours runs")
    for role in survey.dead:
        yield Change(summary=f"{role} died")


def _beyond_files(runs: About, wanted: About) -> Iterator[Change]:
    pairs = {
        "hosts": (", ".join(runs.hosts), ", ".join(wanted.hosts)),
        "executor": (runs.executor, wanted.executor),
        "weights": (runs.weights, wanted.weights),
        "engine": (runs.engine, wanted.engine),
    }
    for name, (before, after) in pairs.items():
        if before != after:
            yield Change(summary=f"{name}: {before} runs, {after} is wanted")


def _files(survey: Survey, files: Mapping[str, str], hash_: str) -> Iterator[Change]:
    for name in sorted({**survey.files, **files}):
        before, after = survey.files.get(name), files.get(name)
        shown = before
        if before and survey.hash:
            shown = before.replace(survey.hash, hash_)  # the label of containers
        if _bare(shown) == _bare(after):
            continue
        path = f"{survey.folder}/{name}"
        verb = "is missing" if before is None else "is not wanted" if after is None else "differs"
        summary = f"{path} {verb}"
        if name == ENVIRONMENT and before and after:
            names = _variables(before).items() ^ _variables(after).items()
            summary += f": {', '.join(sorted({variable for variable, _ in names}))}"
        yield Change(summary=summary, path=path, before=masked(before), after=masked(after))


def _bare(text: str | None) -> str | None:
    """Return a file without comments, which do nothing."""
    if text is None:
        return None
    lines = (line for line in text.splitlines() if line and not line.lstrip().startswith("#"))
    return "\n".join(lines)


def _variables(text: str) -> dict[str, str]:
    """Return what an environment file exports; a variable that it unsets has no entry."""
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        return {}
    return dict(word.split("=", 1) for word in words if "=" in word)
