"""Execute a run that was prepared: connections, log, engine, and what is recorded at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sparkfleet.actions.clock import read_clock
from sparkfleet.actions.run.identity import build_lock_holder
from sparkfleet.actions.run_context import RunContext, RunOptions
from sparkfleet.cli.cluster.watching import unreachable
from sparkfleet.cli.context import CommandContext, build_run_started, open_pool
from sparkfleet.cli.gateway.after_run import follow_with_gateway
from sparkfleet.cli.options import Options
from sparkfleet.cli.playbook.run_events import record_run_event
from sparkfleet.cli.views.connecting import report_connections
from sparkfleet.cli.views.reporters import build_run_stopped
from sparkfleet.errors import SparkfleetError
from sparkfleet.playbook.assignment import uses_cluster
from sparkfleet.playbook.engine import PlaybookRunner
from sparkfleet.playbook.syntax import AssignedPlay
from sparkfleet.report.events import Note, Reporter, Reporters, RunEnded
from sparkfleet.report.log import LogReporter, create_log_folder
from sparkfleet.report.task_durations import read_usual, record_durations


def execute_run(
    assigned: Sequence[AssignedPlay],
    context: CommandContext,
    run_options: RunOptions,
    reporter: Reporter,
    *,
    options: Options,
) -> int:
    """Run the plays on their hosts, with a log folder and a connection pool; return the exit code.

    An error that ends the run is in its log, and is raised.
    """
    began = read_clock()
    holder = build_lock_holder(run_options.command, began.date)
    run_id = f"{began.date:%Y%m%d-%H%M%S}-{holder['pid']}"
    folder = create_log_folder(run_id)
    with (
        LogReporter(folder / "run.log") as log,
        open_pool(options) as pool,
    ):
        run = RunContext(
            inventory=context.inventory,
            cluster=context.cluster,
            recipe=context.recipe,
            options=run_options,
            given=options.set_variables,
            pool=pool,
            reporter=Reporters(reporter, log),
            log_dir=folder,
            run_id=run_id,
            holder=holder,
        )
        report_connections(pool, run.report)
        kind = f"{options.task} {context.recipe.name} {len(context.cluster.hosts)}"
        run.report(replace(build_run_started(options, context), usual=read_usual(kind)))
        try:
            return _run_plays(run, assigned, task=options.task, kind=kind)
        except SparkfleetError as error:
            log.handle(build_run_stopped(error))
            raise
        finally:
            run.state.close_programs()


def _run_plays(run: RunContext, assigned: Sequence[AssignedPlay], *, task: str, kind: str) -> int:
    began = run.clock().ticks
    plays = [assignment.play for assignment in assigned]
    works = uses_cluster(plays)
    for line in unreachable.format_unreachable(run.cluster).values() if works else ():
        run.report(Note(text=line, level="warning"))
    ended = PlaybookRunner(run).run(assigned)
    if works:
        unreachable.update_unreachable(
            run.cluster, lost=ended.lost, answered=ended.answered, command=run.options.command
        )
    cause = ""
    if ended.exit_code:
        from sparkfleet.cli.doctor.after_failure import report_causes  # noqa: PLC0415 - the doctor, for failures

        cause = report_causes(run)
    elif not run.options.check:
        record_durations(kind, ended.phases)
    record_run_event(run, plays, ended, task=task, cause=cause)
    ended = follow_with_gateway(run, plays, ended, task=task)
    run.report(
        RunEnded(
            recap=ended.recap,
            exit_code=ended.exit_code,
            seconds=run.clock().ticks - began,
            answer=tuple(run.summary) if ended.exit_code == 0 else (),
            log=str(run.log_dir),
            phases=ended.phases,
        )
    )
    return ended.exit_code
