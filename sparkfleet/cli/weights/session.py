"""A session with the weights of all hosts: the required models, and the connections."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sparkfleet.actions.stage.weights_inspection import HERE, build_hash_progress
from sparkfleet.cli.context import CommandContext, build_run_started, open_pool, resolve_context
from sparkfleet.cli.options import Options
from sparkfleet.cli.views.screen import create_screen
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import Answers, ConnectionPool, T
from sparkfleet.report.text import TextReporter
from sparkfleet.weights.inspection import HashedCallback
from sparkfleet.weights.required_models import ResolvedModel, resolve_required_models


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingSession:
    """An inspection of the weights of all hosts: the required models, and the connections."""

    context: CommandContext
    models: tuple[ResolvedModel, ...]
    pool: ConnectionPool
    reporter: TextReporter

    def run_on_hosts(self, work: Callable[[Connection, HashedCallback], T]) -> Answers[T]:
        """Return the result of `work` on each host; its second argument reports progress."""

        def run_work(connection: Connection) -> T:
            def report_hashed(done: int) -> None:
                if done:
                    self.reporter.handle(build_hash_progress(connection.host.name, done))

            return work(connection, report_hashed)

        return self.pool.map(run_work, self.context.cluster.hosts)


@contextmanager
def open_staging_session(options: Options) -> Iterator[StagingSession]:
    """Resolve the models of the recipe, and hold the connections to the hosts."""
    context = resolve_context(options)
    progress = create_screen(sys.stderr if options.json else sys.stdout)
    reporter = TextReporter(progress)
    if not options.json:
        reporter.handle(build_run_started(options, context))
    head = Settings(host=context.cluster.head)
    models = resolve_required_models(
        head, lambda done, size: reporter.handle(build_hash_progress(HERE, done, size))
    )
    with open_pool(options) as pool:
        try:
            yield StagingSession(context=context, models=models, pool=pool, reporter=reporter)
        finally:
            progress.clear()


def read_weights_dir(connection: Connection) -> str:
    """Return the weights folder of a host, as its settings name it."""
    return Settings(host=connection.host).text("weights_dir")


def serialize_host_messages(answers: Answers[T]) -> dict[str, str]:
    """Return the error of each host that failed, in one line each."""
    return {name: str(error) for name, error in answers.errors.items()}
