"""Addresses that two hosts share on the fabric, for copies of images and weights."""

from __future__ import annotations

from sparkfleet import links
from sparkfleet.actions.run_context import RunContext
from sparkfleet.links import Fabric
from sparkfleet.weights.transfer.routes import Ends, Shared, share_no_address
from sparkfleet.weights.transfer.stage import Strategy


def read_weights_strategy(run: RunContext) -> Strategy:
    """Return the strategy by which the weights reach the hosts."""
    return Strategy(run.settings(run.cluster.head).text("weights_strategy"))


def build_address_lookup(run: RunContext) -> Shared:
    """Return the function that finds the addresses that two hosts share on the fabric, if any."""
    return build_fabric_lookup(find_transfer_fabric(run), read_weights_strategy(run))


def find_transfer_fabric(run: RunContext) -> Fabric | None:
    """Return the fabric of the run, or the one that its facts show where no task chose one."""
    fabric = run.state.fabric
    if fabric is None and run.state.facts and len(run.cluster.hosts) > 1:
        return links.select_fabric(run.state.facts, run.cluster.hosts)
    return fabric


def build_fabric_lookup(fabric: Fabric | None, strategy: Strategy) -> Shared:
    """Return the function that finds the addresses of `fabric` that two hosts share.

    With the strategies `each` and `push` hosts send nothing to each other.
    """
    if fabric is None or strategy is not Strategy.FANOUT:
        return share_no_address

    return lambda sender, receiver: _find_cable_ends(fabric, sender, receiver)


def find_transfer_ends(run: RunContext, sender: str, receiver: str) -> Ends:
    """Return the addresses of two hosts on one cable, or else their addresses in the group."""
    fabric = run.fabric
    return _find_cable_ends(fabric, sender, receiver) or Ends(
        sender=str(fabric.address(sender)), receiver=str(fabric.address(receiver))
    )


def _find_cable_ends(fabric: Fabric, sender: str, receiver: str) -> Ends | None:
    pair = fabric.find_pair(sender, receiver)
    return pair and Ends(sender=str(pair[0].ip), receiver=str(pair[1].ip))
