"""The netplan file of a host whose rails have no addresses; pure."""

from __future__ import annotations

from collections.abc import Sequence

FILE = "/etc/netplan/40-cx7.yaml"
FIRST_SUBNET = 100  # NVIDIA's guides use 192.168.100.x, and 192.168.101.x for the second rail
FIRST_NUMBER = 10  # of the first host in each subnet
MTU = 9000


def format_netplan_fix(interfaces: Sequence[str], number: int) -> str:
    """Return the commands that give host `number` (from 0) an address on each rail of a cage.

    Interfaces of the same cage are in the same order on every host: the twin's name begins with
    `enP`.
    """
    ordered = sorted(interfaces, key=lambda name: (name.startswith("enP"), name))
    entries = [
        f"    {name}: {{addresses: [192.168.{FIRST_SUBNET + rail}.{FIRST_NUMBER + number}/24], "
        f"mtu: {MTU}, dhcp4: false}}"
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
