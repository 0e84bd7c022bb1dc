"""Differences between the running deployment of a host and the rendered one; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sparkfleet.launch.deployment.deployment import strip_comments
from sparkfleet.launch.deployment.secrets import mask_secrets
from sparkfleet.launch.host.deployment_record import DeploymentRecord
from sparkfleet.launch.host.file_names import ENVIRONMENT
from sparkfleet.launch.host.survey import Survey
from sparkfleet.model import Change
from sparkfleet.onhost.shared.environment_file import parse_exports


def find_drift(
    survey: Survey, files: Mapping[str, str], about: DeploymentRecord, hash_: str
) -> tuple[Change, ...]:
    """Return each difference of one host from the rendered `files` and `about`."""
    changes = [*_compare_states(survey), *_compare_files(survey, files, hash_)]
    if survey.hash is not None:
        changes += _compare_record(survey.about, about)
        if survey.hash != hash_ and not changes:
            changes.append(Change(summary=f"runs deployment {survey.hash}, expected {hash_}"))
    return tuple(changes)


def _compare_states(survey: Survey) -> Iterator[Change]:
    if survey.interrupted:
        yield Change(summary="a run was interrupted here")
    if survey.hash is None:
        yield Change(summary="no deployment is running")
    for role in survey.dead:
        yield Change(summary=f"{role} died")


def _compare_record(running: DeploymentRecord, target: DeploymentRecord) -> Iterator[Change]:
    pairs = {
        "hosts": (", ".join(running.hosts), ", ".join(target.hosts)),
        "executor": (running.executor, target.executor),
        "weights": (running.weights, target.weights),
        "engine": (running.engine, target.engine),
    }
    for name, (before, after) in pairs.items():
        if before != after:
            yield Change(summary=f"{name}: running {before}, expected {after}")


def _compare_files(survey: Survey, files: Mapping[str, str], hash_: str) -> Iterator[Change]:
    for name in sorted({**survey.files, **files}):
        before = survey.files.get(name)
        after = files.get(name)
        shown = before
        if before and survey.hash:
            shown = before.replace(survey.hash, hash_)  # the label of containers
        bare = None if shown is None else strip_comments(shown)
        if bare == (None if after is None else strip_comments(after)):
            continue
        path = f"{survey.folder}/{name}"
        verb = "is missing" if before is None else "is unexpected" if after is None else "differs"
        summary = f"{path} {verb}"
        if name == ENVIRONMENT and before and after:
            names = parse_exports(before).items() ^ parse_exports(after).items()
            summary += f": {', '.join(sorted({variable for variable, _ in names}))}"
        yield Change(
            summary=summary, path=path, before=mask_secrets(before), after=mask_secrets(after)
        )
