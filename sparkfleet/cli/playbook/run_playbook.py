"""Run a playbook for a task: resolve everything offline, then pass it to the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from sparkfleet.cli import prompt
from sparkfleet.cli.context import CommandContext
from sparkfleet.cli.options import Options
from sparkfleet.cli.playbook.execute_run import execute_run
from sparkfleet.cli.playbook.prepare_run import build_run_options, find_playbook, prepare_run
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.reporters import build_run_stopped, create_reporter
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.errors import SparkfleetError
from sparkfleet.playbook.assignment import replaces_deployment
from sparkfleet.playbook.listing import build_listing, format_listing
from sparkfleet.playbook.syntax import AssignedPlay
from sparkfleet.report.events import Reporter
from sparkfleet.resources import format_path


def run_playbook(name: str, options: Options, *, orphans: bool = False) -> int:
    """Run the playbook `name` (shipped, or a path) and return the exit code.

    With `orphans`, stop_deployment also stops clusters that the inventory does not define.
    """
    with _open_reporter(options) as reporter:
        path = find_playbook(name)
        context, assigned = prepare_run(path, options)
        if options.list_tasks or options.list_hosts:
            return _print_listing(assigned, options, path)
        run_options = replace(build_run_options(options, context), orphans=orphans)
        if options.ask_become_pass:
            run_options = replace(run_options, sudo_password=prompt.prompt_sudo_password())
        if replaces_deployment([assignment.play for assignment in assigned]):
            run_options = replace(run_options, confirm_resize=_build_confirmation(options))
        return execute_run(assigned, context, run_options, reporter, options=options)


@contextmanager
def _open_reporter(options: Options) -> Iterator[Reporter]:
    """Yield the reporter of a run, which also reports an error that ends the run."""
    reporter = create_reporter(options)
    try:
        yield reporter
    except SparkfleetError as error:
        reporter.handle(build_run_stopped(error))
        error.reported = True
        raise


def _build_confirmation(options: Options) -> Callable[[str], bool]:
    """Return the function that asks whether the size of a serving deployment may change."""
    if options.yes or options.check:
        return lambda _: True
    if options.json:
        return lambda _: False
    return prompt.confirm


def run_play(play: AssignedPlay, context: CommandContext, options: Options) -> int:
    """Run a play that was built here, as `run_playbook` runs a file; return the exit code."""
    with _open_reporter(options) as reporter:
        run_options = build_run_options(options, context)
        return execute_run((play,), context, run_options, reporter, options=options)


def _print_listing(assigned: Sequence[AssignedPlay], options: Options, path: Path) -> int:
    content = build_listing(assigned, tasks=options.list_tasks, hosts=options.list_hosts)
    if options.json:
        print_document(playbook=format_path(path), **content)
    else:
        print_lines(*format_listing(content, format_path(path)))
    return 0
