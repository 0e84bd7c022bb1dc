"""`cluster.page`: the page of a cluster, live in a browser, without a watcher that acts."""

from __future__ import annotations

import contextlib
import time

from sparkfleet.cli.cluster.options import PageOptions
from sparkfleet.cli.context import (
    ClusterSession,
    CommandContext,
    open_pool,
    print_run_started,
    resolve_context,
)
from sparkfleet.cli.page_content.publisher import (
    PagePublisher,
    format_page_address,
    open_publisher,
    read_page_settings,
)
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.errors import SparkfleetError
from sparkfleet.variables.binding import Binding


def serve_page(options: PageOptions) -> int:
    """Look and serve until Ctrl-C or SIGTERM; return 0. Raises UsageError for a bad address."""
    context = resolve_context(options, needs_recipe=False)
    binding, token_file = read_page_settings(context.cluster.head) or (Binding(), None)
    binding = options.bind or binding
    token_file = options.token_file or token_file
    with (
        contextlib.suppress(KeyboardInterrupt),
        open_publisher(binding, token_file) as publisher,
    ):
        print_run_started(options, context)
        print_lines(*format_page_address(publisher.binding, secured=token_file is not None))
        while True:
            _look_once(options, context, publisher)
            time.sleep(options.every)
    return 0


def _look_once(options: PageOptions, context: CommandContext, publisher: PagePublisher) -> None:
    """Look with connections of its own: those to a host that was off break."""
    try:
        with open_pool(options) as pool:
            try:
                publisher.publish(ClusterSession(context=context, pool=pool))
            except KeyboardInterrupt:
                pool.abort()
                raise
    except SparkfleetError as error:
        print_lines(*(str(problem) for problem in error.problems))
