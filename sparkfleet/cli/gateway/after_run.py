"""The gateway after a run that started or stopped a cluster: in the same report, not undone by it.

The start of a model takes minutes, so a gateway that fails does not undo it: the changes of the
gateway are rolled back, and the run ends with its exit code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import NOTHING
from sparkfleet.cli.gateway.plays import DRIFT, UP, Steps, build_gateway_play
from sparkfleet.cli.playbook.run_events import WATCH
from sparkfleet.command_name import name_command
from sparkfleet.errors import SparkfleetError
from sparkfleet.inventory.gateway import Gateway, read_gateway
from sparkfleet.launch.gateway.host import look_at_gateway
from sparkfleet.model import Status
from sparkfleet.playbook.assignment import replaces_deployment, stops_deployment
from sparkfleet.playbook.engine import PlaybookRunner, RunResult
from sparkfleet.playbook.syntax import Play, iterate_tasks
from sparkfleet.recipes.recipe import Recipe
from sparkfleet.recipes.settings import Settings
from sparkfleet.report.events import Note

LOCK_WAIT = 60.0  # seconds: two clusters that start at the same time change it one after the other


def follow_with_gateway(
    run: RunContext, plays: Sequence[Play], ended: RunResult, *, task: str
) -> RunResult:
    """Render the gateway anew after a run that changed a cluster; return both results as one.

    A start also starts the gateway; a stop reloads one that runs.
    """
    gateway = read_gateway(run.inventory) if not ended.exit_code else None
    if gateway is None:
        return ended
    if _compares(plays):
        return _run_steps(run, gateway, ended, DRIFT)
    if run.options.check:
        return ended
    starts = replaces_deployment(plays)
    if not starts and not (stops_deployment(plays) and _is_running(run, gateway)):
        return ended
    try:
        joined = _run_steps(run, gateway, ended, UP)
    except SparkfleetError as error:
        run.report(Note(text=f"gateway: {error}", level="error"))
        joined = replace(ended, exit_code=error.exit_code)
    if not joined.exit_code:
        return joined
    state = "is serving at its own address" if starts else "was stopped"
    text = f"cluster {run.cluster.name} {state}, but the gateway was not updated; run "
    run.report(Note(text=text + name_command("gateway.up"), level="error"))
    return ended if task == WATCH else joined


def _compares(plays: Sequence[Play]) -> bool:
    return any(task.action == "drift" for play in plays for task in iterate_tasks(play.tasks))


def _is_running(run: RunContext, gateway: Gateway) -> bool:
    looks = run.pool.map(
        lambda connection: look_at_gateway(connection, Settings(host=gateway.host)),
        (gateway.host,),
        repeatable=True,
    )
    return any(look.runs for look in looks.values.values())


def _run_steps(run: RunContext, gateway: Gateway, ended: RunResult, steps: Steps) -> RunResult:
    options = replace(
        run.options, tp=1, pp=1, dp=1, lock_wait=max(run.options.lock_wait, LOCK_WAIT)
    )
    own = replace(
        run,
        cluster=gateway.cluster,
        recipe=Recipe(name="", path=Path()),
        options=options,
        variables={},
        hosts=(),
        state=NOTHING,
        summary=run.summary,
    )
    try:
        followed = PlaybookRunner(own).run([build_gateway_play("Gateway", steps, gateway)])
    finally:
        if own.state.locks is not None:
            own.state.locks.release()
    return RunResult(
        recap=_add_recaps(ended.recap, followed.recap),
        exit_code=ended.exit_code or followed.exit_code,
        lost=ended.lost | followed.lost,
        phases=(*ended.phases, *followed.phases),
    )


def _add_recaps(
    *recaps: Mapping[str, Mapping[Status, int]],
) -> dict[str, Mapping[Status, int]]:
    total: dict[str, Counter[Status]] = {}
    for recap in recaps:
        for host, counts in recap.items():
            total.setdefault(host, Counter()).update(counts)
    return dict(total)
