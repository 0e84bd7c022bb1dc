"""`cluster.export`: targets for Prometheus, and a dashboard for Grafana."""

from __future__ import annotations

import ipaddress
import sys

from sparkfleet.cli.cluster.options import MonitoringOptions
from sparkfleet.cli.cluster.status import scan_cluster
from sparkfleet.cli.context import ClusterSession, CommandContext, open_pool, resolve_context
from sparkfleet.cli.page_content.deployment_values import find_served
from sparkfleet.cli.page_content.publisher import build_host_path, read_page_settings
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.command_name import name_command
from sparkfleet.errors import UsageError
from sparkfleet.launch.endpoint.health import ProbeUse
from sparkfleet.page.dashboard import format_dashboard
from sparkfleet.page.targets import format_targets, list_targets
from sparkfleet.recipes.settings import Settings
from sparkfleet.report import screens
from sparkfleet.report.output_files import check_output_file, write_output_file
from sparkfleet.resources import format_path
from sparkfleet.variables.binding import Binding


def export_monitoring(options: MonitoringOptions) -> int:
    """Write the file, or print its text, and return 0; raises UsageError."""
    if options.to is None:
        raise UsageError("--to is missing", hint="type: --to prometheus, or --to grafana")
    if options.out is not None:
        check_output_file(options.out)
    context = resolve_context(options, needs_recipe=False)
    if options.to == "grafana":
        text = format_dashboard(context.cluster.name)
    else:
        text = _format_targets(options, context)
    if options.out is None:
        screens.write_escaped(sys.stdout, text)
        return 0
    write_output_file(options.out, text)
    print_lines(f"wrote {format_path(options.out)}", *_format_next_steps(options, context))
    return 0


def _format_targets(options: MonitoringOptions, context: CommandContext) -> str:
    """Return the targets; asks the hosts what they serve, since a recipe may set the port."""
    with open_pool(options) as pool:
        session = ClusterSession(context=context, pool=pool)
        served = find_served(context, scan_cluster(session, probe=ProbeUse.NEVER))
    head = context.cluster.head
    address = f"{head.address}:{Settings(host=head).integer('vllm_port')}"
    if served:
        address = served.url.removeprefix("http://").removesuffix("/v1")
    groups = list_targets(
        context.cluster.name,
        [(host.name, build_host_path(host.name)) for host in context.cluster.hosts],
        page=locate_page(context),
        vllm=address,
        served=served,
    )
    return format_targets(list(groups))


def locate_page(context: CommandContext) -> str:
    """Return where Prometheus finds the page: on its own machine, unless `page` is bound wider."""
    binding, _ = read_page_settings(context.cluster.head) or (Binding(), None)
    if ipaddress.ip_address(binding.address).is_unspecified:
        binding = Binding(address=context.cluster.head.address, port=binding.port)
    return str(binding)


def _format_next_steps(options: MonitoringOptions, context: CommandContext) -> tuple[str, ...]:
    if options.to == "grafana":
        return ("import it in Grafana: Dashboards, New, Import; or provision it from a folder",)
    servers = (
        f"{name_command('cluster.watch')} with `page` in the inventory, "
        f"or {name_command('cluster.page')}"
    )
    return (f"hosts are read from the page at {locate_page(context)}; it is served by: {servers}",)
