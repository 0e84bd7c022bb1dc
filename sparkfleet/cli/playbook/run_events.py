"""The event of a run that started or stopped a cluster, for the log on its head."""

from __future__ import annotations

from collections.abc import Sequence

from sparkfleet.actions.deploy.start_action import locate_files
from sparkfleet.actions.run.receipt import build_start_request
from sparkfleet.actions.run_context import RunContext
from sparkfleet.cli.cluster.watching.own_starts import save_own_start
from sparkfleet.errors import Interrupted, SparkfleetError
from sparkfleet.launch.watching.events import ClusterEvent, EventKind, record_event
from sparkfleet.playbook.assignment import replaces_deployment, stops_deployment
from sparkfleet.playbook.engine import RunResult
from sparkfleet.playbook.syntax import Play
from sparkfleet.report.events import Note

WATCH = "cluster.watch"  # the task of a run that the watcher begins


def record_run_event(
    run: RunContext, plays: Sequence[Play], ended: RunResult, *, task: str, cause: str = ""
) -> None:
    """Append what a run of `task` did to the cluster to its log; a failure is only a warning."""
    head = run.cluster.head
    if replaces_deployment(plays) and ended.exit_code == 0 and not run.options.check:
        save_own_start(run.cluster.name, build_start_request(run))
    event = describe_run(run, plays, task=task, exit_code=ended.exit_code, cause=cause)
    if event is None or head.name in ended.lost:
        return
    try:
        record_event(run.pool.connect(head), locate_files(run, head), event)
    except SparkfleetError as error:
        text = f"the event {event.kind} could not be recorded on {head.name}: {error.message}"
        run.report(Note(text=text, level="warning"))


def describe_run(
    run: RunContext, plays: Sequence[Play], *, task: str, exit_code: int, cause: str
) -> ClusterEvent | None:
    """Return the event of a run, None if it changed nothing and was not asked to stop anything.

    A run that was to stop the cluster counts as a stop even if it failed: the user wanted one.
    """
    if run.options.check:
        return None
    if stops_deployment(plays):
        text = (
            f"{task} stopped the cluster"
            if exit_code == 0
            else f"{task} {_describe_end(exit_code)}"
        )
        return _build_event(run, EventKind.STOPPED, text)
    launch = run.state.launch
    if not replaces_deployment(plays) or (exit_code == 0 and not (launch and launch.reason)):
        return None
    watched = task == WATCH
    if exit_code:
        kind = EventKind.RELAUNCH_FAILED if watched else EventKind.START_FAILED
        return _build_event(run, kind, f"{task} {_describe_end(exit_code)}", cause=cause)
    kind = EventKind.RELAUNCHED if watched else EventKind.STARTED
    return _build_event(run, kind, launch.reason if launch else "")


def _describe_end(exit_code: int) -> str:
    if exit_code == Interrupted.exit_code:
        return "was interrupted"
    return f"failed with exit code {exit_code}"


def _build_event(run: RunContext, kind: EventKind, text: str, *, cause: str = "") -> ClusterEvent:
    launch = run.state.launch
    starts = kind is not EventKind.STOPPED
    return ClusterEvent(
        kind=kind,
        text=text,
        recipe=run.recipe.name if starts else "",
        deployment=launch.deployment.hash if starts and launch else "",
        cause=cause,
        by=f"{run.holder['user']}@{run.holder['machine']}",
        log=str(run.log_dir) if cause or "failed" in kind else "",
    )
