"""A change of the number of hosts that serve: reported first, and confirmed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparkfleet.actions.run_context import RunContext
from sparkfleet.errors import GateError
from sparkfleet.launch.host.survey import Survey
from sparkfleet.report.plurals import format_plural


def describe_resize(surveys: Mapping[str, Survey], hosts: Sequence[str]) -> str:
    """Return how the size of what is serving would change; "" if it would not."""
    serving = _list_serving(surveys)
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
    text = describe_resize(surveys, names) if ask else ""
    if ask and text and not ask(f"{text}. Continue?"):
        size = len(_list_serving(surveys))
        raise GateError(
            f"not confirmed: {text}",
            host=names[0],
            hint=f"to change the size, add --yes; to keep it, add --tp {size}",
        )
    return text


def _list_serving(surveys: Mapping[str, Survey]) -> tuple[str, ...]:
    return next((s.about.hosts for s in surveys.values() if s.roles and not s.interrupted), ())
