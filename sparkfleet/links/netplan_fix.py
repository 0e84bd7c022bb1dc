"""The netplan file of a host whose rails have no addresses; pure."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Interface

from sparkfleet.links.addressing.allocation import FIRST_NUMBER, FIRST_SUBNET

FILE = "/etc/netplan/40-cx7.yaml"  # as in NVIDIA's guides
JUMBO = 9000  # bytes; the MTU of every tuned setup


def format_netplan_fix(interfaces: Sequence[str], number: int) -> str:
    """Return the commands that give host `number` (from 0) an address on each rail of a cage.

    Interfaces of the same cage are in the same order on every host: the twin's name begins with
    `enP`.
    """
    ordered = sorted(interfaces, key=lambda name: (name.startswith("enP"), name))
    entries = [
        f"    {name}: {{addresses: [{_number_host(rail, number)}], mtu: {JUMBO}, dhcp4: false}}"
        for rail, name in enumerate(ordered)
    ]
    lines = [
        "give each rail a static address in a subnet of its own: {task:links.apply}, or by hand:",
        f"sudo tee {FILE} <<'EOF'",
        "network:",
        "  version: 2",
        "  ethernets:",
        *entries,
        "EOF",
        f"sudo chmod 600 {FILE}",
        "sudo netplan apply",
    ]
    return "\n".join(lines)


def _number_host(rail: int, number: int) -> IPv4Interface:
    """Return the address of a host on a rail: each rail has the subnet after that of the last."""
    start = FIRST_SUBNET.network_address + rail * FIRST_SUBNET.num_addresses
    return IPv4Interface((start + FIRST_NUMBER + number, FIRST_SUBNET.prefixlen))
