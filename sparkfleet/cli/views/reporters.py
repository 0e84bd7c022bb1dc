"""Reporters of a run, as the options of its command line choose them."""

from __future__ import annotations

import sys

from sparkfleet.cli.options import Options
from sparkfleet.cli.views.screen import create_screen
from sparkfleet.errors import SparkfleetError
from sparkfleet.report import json
from sparkfleet.report.events import Reporter, Reporters, RunStopped
from sparkfleet.report.text import TextReporter


def create_reporter(options: Options) -> Reporter:
    """Return what reports a run: as text or JSON, and to the files that the options name."""
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


def build_run_stopped(error: SparkfleetError) -> RunStopped:
    """Return the event of a run that an error ended."""
    return RunStopped(problems=error.problems, exit_code=error.exit_code)
