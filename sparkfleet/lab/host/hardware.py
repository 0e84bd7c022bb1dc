"""Names of a Spark's network hardware, and how the kernel shows it, as pure values.

Names, slots and formats: `docs/lab.md` lists the recorded outputs that each was taken from.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address

MANAGEMENT = "enP7s7"  # Realtek RTL8127, 10 Gb/s, RJ45
WIFI = "wlP9s9"
DOCKER = "docker0"
GID_TABLE = 16  # entries shown of each port's table; the real one has 255, most of them empty
EMPTY_GID = "0000:0000:0000:0000:0000:0000:0000:0000"
FIRST_IPV4_GID = 2  # after the two that come from the MAC address
GID_TYPES = ("IB/RoCE v1", "RoCE v2")
OUI = "5c:a2:e1:f4"

Slots = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NicFunction:
    """One PCI function of the ConnectX-7: half of a cage's bandwidth, a netdev and an HCA."""

    netdev: str
    hca: str
    slot: str
    cage: int
    mac_offset: int


# MAC addresses keep the spacing of real ones: +1 and +2, +5 and +6 from the management port's.
FUNCTIONS = tuple(
    NicFunction(netdev=netdev, hca=hca, slot=slot, cage=cage, mac_offset=offset)
    for netdev, hca, slot, cage, offset in (
        ("enp1s0f0np0", "rocep1s0f0", "0000:01:00.0", 0, 0x12),
        ("enp1s0f1np1", "rocep1s0f1", "0000:01:00.1", 1, 0x13),
        ("enP2p1s0f0np0", "roceP2p1s0f0", "0002:01:00.0", 0, 0x16),
        ("enP2p1s0f1np1", "roceP2p1s0f1", "0002:01:00.1", 1, 0x17),
    )
)
MANAGEMENT_MAC_OFFSET = 0x11
WIFI_MAC_OFFSET = 0x1F


def format_mac(host: int, offset: int) -> str:
    """Return the MAC address of the interface at `offset` on host number `host`."""
    return f"{OUI}:{host:02x}:{offset:02x}"


def format_node_guid(address: str) -> str:
    """Return the node GUID that mlx5 makes of a MAC address."""
    octets = address.split(":")
    return ":".join(("".join(octets[:2]), octets[2] + "03", "00" + octets[3], "".join(octets[4:])))


def compute_link_local_gid(address: str) -> str:
    """Return the GID that every port has: fe80::/64 and the EUI-64 of its MAC address."""
    octets = address.split(":")
    first = f"{int(octets[0], 16) ^ 2:02x}"
    tail = (first + octets[1], octets[2] + "ff", "fe" + octets[3], "".join(octets[4:]))
    return ":".join(("fe80:0000:0000:0000", *tail))


def compute_ipv4_gid(address: str) -> str:
    """Return the IPv4-mapped GID of an address."""
    number = int(IPv4Address(address))
    return f"0000:0000:0000:0000:0000:ffff:{number >> 16:04x}:{number & 0xFFFF:04x}"


def update_gid_slots(slots: Slots, ipv4: Iterable[str]) -> Slots:
    """Return which address is where in a port's table, after its netdev's addresses changed.

    As the kernel does it: a removed address leaves a hole, a new one takes the first hole. So an
    index depends on history, not only on the addresses.
    """
    now = list(ipv4)
    kept: list[str | None] = [address if address in now else None for address in slots]
    for new in (address for address in now if address not in kept):
        if None in kept:
            kept[kept.index(None)] = new
        else:
            kept.append(new)
    return tuple(kept)


def build_gid_table(address: str, slots: Slots, first: int = FIRST_IPV4_GID) -> tuple[str, ...]:
    """Return the GIDs of a port by index, `GID_TABLE` of them; `address` is its MAC address.

    The kernel lists each twice, for RoCE v1 (even index) and v2 (odd). Those of the addresses in
    `slots` begin at index `first`.
    """
    table = [EMPTY_GID] * GID_TABLE
    table[0:2] = [compute_link_local_gid(address)] * 2
    for position, ipv4 in enumerate(slots[: (GID_TABLE - first) // 2]):
        if ipv4 is not None:
            table[first + 2 * position : first + 2 * position + 2] = [compute_ipv4_gid(ipv4)] * 2
    return tuple(table)
