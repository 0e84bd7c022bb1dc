"""`gateway.up` and `gateway.down`."""

from __future__ import annotations

from sparkfleet.cli import defaults
from sparkfleet.cli.gateway.context import resolve_gateway
from sparkfleet.cli.gateway.plays import DOWN, UP, build_gateway_play
from sparkfleet.cli.options import Options
from sparkfleet.cli.playbook.run_playbook import run_play
from sparkfleet.inventory.gateway import has_gateway
from sparkfleet.inventory.loading import load_inventory


def run_gateway_up(options: Options) -> int:
    """Start or reload the gateway; return the exit code."""
    context, gateway = resolve_gateway(options)
    return run_play(build_gateway_play("Bring the gateway up", UP, gateway), context, options)


def run_gateway_down(options: Options) -> int:
    """Stop the gateway; return the exit code."""
    context, gateway = resolve_gateway(options)
    return run_play(build_gateway_play("Bring the gateway down", DOWN, gateway), context, options)


def run_gateway_down_if_any(options: Options) -> int:
    """Stop the gateway where the inventory has one; return the exit code."""
    inventory = load_inventory(
        defaults.find_inventory_files(options.inventory), extra_vars=options.set_variables
    )
    return run_gateway_down(options) if has_gateway(inventory) else 0
