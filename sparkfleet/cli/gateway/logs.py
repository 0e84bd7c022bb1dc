"""`gateway.logs`: the end of the gateway's log, and what is added to it."""

from __future__ import annotations

from sparkfleet.cli.cluster.logs import follow_logs
from sparkfleet.cli.context import open_pool, print_run_started
from sparkfleet.cli.gateway.context import resolve_gateway
from sparkfleet.cli.gateway.options import GatewayLogsOptions
from sparkfleet.launch.gateway.host import locate_gateway
from sparkfleet.recipes.settings import Settings


def show_gateway_logs(options: GatewayLogsOptions) -> int:
    """Print the end of the log, and with --follow what is added; return the exit code, 0 or 4."""
    context, gateway = resolve_gateway(options)
    print_run_started(options, context)
    with open_pool(options) as pool:
        return follow_logs(
            pool,
            (gateway.host,),
            lambda host: locate_gateway(Settings(host=host)),
            lines=options.lines,
            follow=options.follow,
        )
