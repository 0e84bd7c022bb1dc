"""`gateway.up`, `gateway.down` and `gateway.logs`."""

from __future__ import annotations

from sparkfleet.cli import defaults
from sparkfleet.cli.cluster.logs import follow_logs
from sparkfleet.cli.connection_checks import check_ssh_options
from sparkfleet.cli.context import NO_RECIPE, CommandContext, open_pool, print_run_started
from sparkfleet.cli.gateway.options import GatewayLogsOptions
from sparkfleet.cli.gateway.plays import DOWN, UP, build_gateway_play
from sparkfleet.cli.options import Options
from sparkfleet.cli.run_playbook import run_play
from sparkfleet.errors import InventoryError
from sparkfleet.inventory.gateway import Gateway, has_gateway, read_gateway
from sparkfleet.inventory.loading import load_inventory
from sparkfleet.launch.gateway.host import locate_gateway
from sparkfleet.recipes.settings import Settings


def resolve_gateway(options: Options) -> tuple[CommandContext, Gateway]:
    """Read the inventory; raises InventoryError where it has no gateway, or a wrong one."""
    files = tuple(defaults.find_inventory_files(options.inventory))
    inventory = load_inventory(files, extra_vars=options.set_variables)
    gateway = read_gateway(inventory)
    if gateway is None:
        raise InventoryError(
            f"{', '.join(files)}: no gateway",
            hint="add to the variables of the group sparks: gateway: {port: 8080}; docs/gateway.md",
        )
    check_ssh_options(inventory.hosts.values())
    context = CommandContext(
        files=files, inventory=inventory, cluster=gateway.cluster, recipe=NO_RECIPE
    )
    return context, gateway


def run_gateway_up(options: Options) -> int:
    """Start or reload the gateway; return the exit code."""
    context, gateway = resolve_gateway(options)
    return run_play(build_gateway_play("Bring the gateway up", UP, gateway), context, options)


def run_gateway_down(options: Options) -> int:
    """Stop the gateway; return the exit code."""
    context, gateway = resolve_gateway(options)
    return run_play(build_gateway_play("Bring the gateway down", DOWN, gateway), context, options)


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


def run_gateway_down_if_any(options: Options) -> int:
    """Stop the gateway where the inventory has one; return the exit code."""
    inventory = load_inventory(
        defaults.find_inventory_files(options.inventory), extra_vars=options.set_variables
    )
    return run_gateway_down(options) if has_gateway(inventory) else 0
