"""The context of `gateway.*`: the inventory and the gateway in it, before any connection."""

from __future__ import annotations

from sparkfleet.cli import defaults
from sparkfleet.cli.connection_checks import check_ssh_options
from sparkfleet.cli.context import NO_RECIPE, CommandContext
from sparkfleet.cli.options import Options
from sparkfleet.command_name import name_command
from sparkfleet.errors import InventoryError
from sparkfleet.inventory.gateway import Gateway, read_gateway
from sparkfleet.inventory.loading import load_inventory


def resolve_gateway(options: Options) -> tuple[CommandContext, Gateway]:
    """Read the inventory; raises InventoryError where it has no gateway, or a wrong one."""
    files = tuple(defaults.find_inventory_files(options.inventory))
    inventory = load_inventory(files, extra_vars=options.set_variables)
    gateway = read_gateway(inventory)
    if gateway is None:
        raise InventoryError(
            f"{', '.join(files)}: no gateway",
            hint="add to the variables of the group sparks: gateway: {port: 8080}; "
            f"see: {name_command('docs')} gateway",
        )
    check_ssh_options(inventory.hosts.values())
    context = CommandContext(
        files=files, inventory=inventory, cluster=gateway.cluster, recipe=NO_RECIPE
    )
    return context, gateway
