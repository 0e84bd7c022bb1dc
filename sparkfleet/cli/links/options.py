"""Options of `links.*`."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

from sparkfleet.cli.options import Options, duration, flag, option, parse_path
from sparkfleet.errors import UsageError

SMALLEST_SUBNET = 30  # prefix length: two hosts
REVERT_AFTER = 120.0  # seconds
YES = "make the changes without asking; without a terminal they are only shown"
WHILE_SERVING = (
    "with --yes: even while the cluster serves, which loses its links, or a run changes it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkMapOptions(Options):
    """Options of `links.show`."""

    svg: Path | None = option(
        "write a drawing of the cables to this file", parse_path, value="FILE"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkBenchOptions(Options):
    """Options of `links.bench`; `seconds` is how long each direction is measured."""

    seconds: float = option(
        "how long each direction is measured", duration(least=0.01), default=1.0
    )
    collective: bool = flag(
        "also time all_gather and all_reduce in the engine's environment", default=True
    )
    svg: Path | None = option("write a plot of the rates to this file", parse_path, value="FILE")


def parse_subnet(name: str, text: str) -> IPv4Network:
    """Return the subnet of option `name`; raises UsageError for one that rails cannot have."""
    hint = f"type: --{name} 192.168.200.0/24"
    try:
        network = IPv4Network(text)
    except ValueError as error:
        raise UsageError(f"--{name}: {error}", hint=hint) from error
    if network.prefixlen > SMALLEST_SUBNET:
        raise UsageError(f"--{name}: {text} has no room for two hosts", hint=hint)
    if not network.is_private or network.is_loopback or network.is_link_local:
        raise UsageError(f"--{name}: expected a private subnet (got {text})", hint=hint)
    return network


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOptions(Options):
    """Options of the tasks that change the links."""

    yes: bool = flag(YES)
    while_serving: bool = flag(WHILE_SERVING)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressPlanOptions(Options):
    """Options of `links.plan`."""

    subnet: IPv4Network | None = option(
        "subnet of the first rail that has none; the next rails get the next subnets of its size "
        "(default 192.168.100.0/24)",
        parse_subnet,
        value="SUBNET",
    )
    arp: bool = flag("let each rail answer ARP for its own address only (link.arp_flux)")


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressApplyOptions(AddressPlanOptions):
    """Options of `links.apply`; `revert_after` is the timer of the hosts, in seconds."""

    yes: bool = flag(YES)
    while_serving: bool = flag(WHILE_SERVING)
    revert_after: float = option(
        "seconds after which each host restores what was before, unless the links are proven",
        duration(least=10.0),
        default=REVERT_AFTER,
    )
