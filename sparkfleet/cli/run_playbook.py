"""Run a playbook for a task: resolve everything offline, then pass it to the engine."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from sparkfleet.actions.run_context import RunContext, RunOptions
from sparkfleet.cli import prompt
from sparkfleet.cli.cluster import unreachable
from sparkfleet.cli.connection_checks import check_ssh_options, check_sudo_passwords
from sparkfleet.cli.context import (
    CommandContext,
    build_run_started,
    check_tp,
    get_tp,
    open_pool,
    resolve_context,
)
from sparkfleet.cli.gateway.following import follow_with_gateway
from sparkfleet.cli.options import Options, format_command_line
from sparkfleet.cli.recipes.review import review_recipe
from sparkfleet.cli.run_events import record_run_event
from sparkfleet.cli.views.connecting import report_connections
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.screen import create_screen, print_lines
from sparkfleet.errors import PlaybookError, SparkfleetError
from sparkfleet.model import Status
from sparkfleet.playbook.assignment import (
    assign_hosts,
    find_become_hosts,
    replaces_deployment,
    starts_deployment,
    uses_cluster,
)
from sparkfleet.playbook.engine import PlaybookRunner, RunResult
from sparkfleet.playbook.listing import build_listing, format_listing
from sparkfleet.playbook.parse import load_playbook
from sparkfleet.playbook.selection import select_tasks
from sparkfleet.playbook.syntax import AssignedPlay
from sparkfleet.playbook.task_order import check_selected_order
from sparkfleet.report import json
from sparkfleet.report.events import Note, Reporter, Reporters, RunEnded, RunStopped
from sparkfleet.report.log import LogReporter, create_log_folder
from sparkfleet.report.text import TextReporter
from sparkfleet.report.usual import read_usual, record_durations
from sparkfleet.resources import find_data_file, format_path, list_data_files
from sparkfleet.spelling import suggest_similar

EXAMPLES = "playbooks/examples"


def run_playbook(name: str, options: Options, *, orphans: bool = False) -> int:
    """Run the playbook `name` (shipped, or a path) and return the exit code.

    With `orphans` cluster_down also stops clusters that the inventory does not define.
    """
    reporter = _create_reporter(options)
    try:
        path = _find_playbook(name)
        context, assigned = _prepare_run(path, options)
        if options.list_tasks or options.list_hosts:
            return _print_listing(assigned, options, path)
        run_options = replace(_build_run_options(options, context), orphans=orphans)
        if options.ask_become_pass:
            run_options = replace(run_options, sudo_password=prompt.prompt_sudo_password())
        if replaces_deployment([assignment.play for assignment in assigned]):
            run_options = replace(run_options, confirm_resize=_build_confirmation(options))
        return _execute_run(assigned, context, run_options, reporter, options=options)
    except SparkfleetError as error:
        reporter.handle(_build_run_stopped(error))
        error.reported = True
        raise


def _prepare_run(path: Path, options: Options) -> tuple[CommandContext, tuple[AssignedPlay, ...]]:
    """Read all files and choose tasks and hosts; connects to no host."""
    playbook = load_playbook(path)
    plays = select_tasks(playbook, options.selection)
    works = uses_cluster(plays)
    begins = starts_deployment(plays)
    context = resolve_context(options, works_on_cluster=works, needs_recipe=begins)
    if begins:
        review_recipe(context.recipe, options)
    if begins and options.offers_size:
        run_options = _build_run_options(options, context)
        check_tp(run_options.tp, context.recipe, pp=run_options.pp)
    assigned = assign_hosts(
        plays, context.inventory, context.cluster, limit=options.limit, given=options.set_variables
    )
    check_selected_order(
        [assignment.play for assignment in assigned],
        playbook,
        nodes=_build_run_options(options, context).nodes,
    )
    check_ssh_options(host for assignment in assigned for host in assignment.hosts)
    check_sudo_passwords(find_become_hosts(assigned))
    return context, assigned


def _build_confirmation(options: Options) -> Callable[[str], bool]:
    """Return what asks whether the size of a serving deployment may change."""
    if options.yes or options.check:
        return lambda _: True
    if options.json:
        return lambda _: False
    return prompt.confirm


def _build_run_stopped(error: SparkfleetError) -> RunStopped:
    return RunStopped(problems=error.problems, exit_code=error.exit_code)


def _create_reporter(options: Options) -> Reporter:
    if options.json:
        reporter: Reporter = json.JsonReporter(sys.stdout, task=options.task, check=options.check)
    else:
        reporter = TextReporter(
            create_screen(sys.stdout), diff=options.diff, verbose=options.verbose
        )
    reporters = [reporter]
    if options.junit is not None:
        from sparkfleet.report.junit import JunitReporter  # noqa: PLC0415 - few runs write one

        reporters.append(JunitReporter(options.junit))
    if options.trace is not None:
        from sparkfleet.report.trace import TraceReporter  # noqa: PLC0415 - few runs write one

        reporters.append(TraceReporter(options.trace))
    return Reporters(*reporters)


def _find_playbook(name: str) -> Path:
    """Return the file `name`, else the shipped playbook or example of that name or path."""
    is_file_name = name.endswith((".yml", ".yaml"))
    if is_file_name and Path(name).is_file():
        return Path(name)
    shipped = name.removeprefix("playbooks/") if is_file_name else f"{name}.yml"
    path = find_data_file("playbooks", shipped) or find_data_file(EXAMPLES, shipped)
    if path is None:
        names = [*list_data_files("playbooks", ".yml"), *list_data_files(EXAMPLES, ".yml")]
        raise PlaybookError(f"playbook {name!r} not found", hint=suggest_similar(name, names))
    return path


def run_play(play: AssignedPlay, context: CommandContext, options: Options) -> int:
    """Run a play that was built here, as `run_playbook` runs a file; return the exit code."""
    reporter = _create_reporter(options)
    try:
        run_options = _build_run_options(options, context)
        return _execute_run((play,), context, run_options, reporter, options=options)
    except SparkfleetError as error:
        reporter.handle(_build_run_stopped(error))
        error.reported = True
        raise


def _print_listing(assigned: Sequence[AssignedPlay], options: Options, path: Path) -> int:
    content = build_listing(assigned, tasks=options.list_tasks, hosts=options.list_hosts)
    if options.json:
        print_document(playbook=format_path(path), **content)
    else:
        print_lines(*format_listing(content, format_path(path)))
    return 0


def _execute_run(
    assigned: Sequence[AssignedPlay],
    context: CommandContext,
    run_options: RunOptions,
    reporter: Reporter,
    *,
    options: Options,
) -> int:
    run_id = time.strftime("%Y%m%d-%H%M%S") + f"-{os.getpid()}"
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
        )
        report_connections(pool, run.report)
        kind = f"{options.task} {context.recipe.name} {len(context.cluster.hosts)}"
        run.report(replace(build_run_started(options, context), usual=read_usual(kind)))
        try:
            return _run_plays(run, assigned, task=options.task, kind=kind)
        except SparkfleetError as error:
            log.handle(_build_run_stopped(error))
            raise


def _run_plays(run: RunContext, assigned: Sequence[AssignedPlay], *, task: str, kind: str) -> int:
    began = time.monotonic()
    plays = [assignment.play for assignment in assigned]
    works = uses_cluster(plays)
    for line in unreachable.format_unreachable(run.cluster).values() if works else ():
        run.report(Note(text=line, level="warning"))
    ended = PlaybookRunner(run).run(assigned)
    if works:
        _record_unreachable(run, ended)
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
            seconds=time.monotonic() - began,
            answer=tuple(run.summary) if ended.exit_code == 0 else (),
            log=str(run.log_dir),
            phases=ended.phases,
        )
    )
    return ended.exit_code


def _record_unreachable(run: RunContext, ended: RunResult) -> None:
    unreachable.update_unreachable(
        run.cluster,
        lost=ended.lost,
        answered=[
            name
            for name, counts in ended.recap.items()
            if any(count for status, count in counts.items() if status is not Status.UNREACHABLE)
        ],
        command=run.options.command,
    )


def _build_run_options(options: Options, context: CommandContext) -> RunOptions:
    return RunOptions(
        tp=get_tp(options, context),
        pp=options.pp,
        dp=options.dp,
        check=options.check,
        allow_degraded=options.allow_degraded,
        lock_wait=options.lock_wait,
        command=format_command_line(),
    )
