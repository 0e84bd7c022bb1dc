"""A change of the number of hosts that serve: reported first, and confirmed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparkfleet.actions.run_context import RunContext
from sparkfleet.errors import GateError
from sparkfleet.launch.host.deployment_record import DeploymentRecord
from sparkfleet.launch.host.survey import Survey
from sparkfleet.report.plurals import format_plural


def describe_resize(surveys: Mapping[str, Survey], hosts: Sequence[str]) -> str:
    """Return how the size of what is serving would change; "" if it would not."""
    about = _find_serving(surveys)
    serving = about.hosts if about else ()
    if not serving or len(serving) == len(hosts):
        return ""
    before = f"{format_plural(len(serving), 'Spark')} ({', '.join(serving)})"
    return (
        f"a deployment is serving on {before}; this run replaces it with one on "
        f"{len(hosts)} ({', '.join(hosts)})"
    )


def confirm_resize(run: RunContext, surveys: Mapping[str, Survey]) -> str:
    """Return how the size changes, once confirmed; raises GateError if it is not."""
    ask = run.options.confirm_resize
    names = [host.name for host in run.cluster.hosts]
    about = _find_serving(surveys)
    text = describe_resize(surveys, names) if ask else ""
    if ask and about and text and not ask(f"{text}. Continue?"):
        raise GateError(
            f"not confirmed: {text}",
            host=names[0],
            hint=f"to change the size, add --yes; to keep it, add {_format_size(about)}",
        )
    return text


def _find_serving(surveys: Mapping[str, Survey]) -> DeploymentRecord | None:
    return next((s.about for s in surveys.values() if s.roles and not s.interrupted), None)


def _format_size(about: DeploymentRecord) -> str:
    """Return the options of `cluster.up` that start a deployment of the same size."""
    sizes = {"tp": about.tp, "pp": about.pp, "dp": about.dp}
    return " ".join(f"--{name} {size}" for name, size in sizes.items() if size > 1) or "--solo"
