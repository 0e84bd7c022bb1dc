"""HCAs, their ports, GIDs and counters, and the PCI functions behind them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address

from sparkfleet.facts.readings import Readings
from sparkfleet.facts.tools import parse_active_mtus, parse_ibdev2netdev, parse_rdma_link
from sparkfleet.values import parse_digits

RDMA = "/sys/class/infiniband"
PCI = "/sys/bus/pci/devices"
MELLANOX = "0x15b3"  # vendor id of ConnectX


@dataclass(frozen=True, slots=True, kw_only=True)
class Gid:
    """One entry of a port's GID table."""

    index: int
    address: IPv6Address
    kind: str
    netdev: str

    @property
    def ipv4(self) -> IPv4Address | None:
        """The IPv4 address of an IPv4-mapped GID (``::ffff:192.168.100.10``)."""
        return self.address.ipv4_mapped

    @property
    def roce_v2(self) -> bool:
        """Whether it is RoCE v2, the only one that NCCL routes by IP."""
        return self.kind == "RoCE v2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hca:
    """One port of an RDMA device; a ConnectX-7 of a Spark has one port a device.

    `state` and `phys_state` are words (``ACTIVE``, ``LinkUp``), `rate` is in Gb/s (40 on a port
    without a cable), `active_mtu` in bytes, None where `ibv_devinfo` is missing.
    """

    name: str
    port: int = 1
    netdev: str | None = None
    state: str = ""
    phys_state: str = ""
    rate: int | None = None
    link_layer: str = ""
    firmware: str = ""
    active_mtu: int | None = None
    gids: tuple[Gid, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)

    @property
    def up(self) -> bool:
        """Whether RDMA can pass: ACTIVE and LinkUp (DOWN with LinkUp occurs, so both count)."""
        return self.state == "ACTIVE" and self.phys_state == "LinkUp"

    def ipv4_gids(self, address: IPv4Address) -> tuple[Gid, ...]:
        """Return its RoCE v2 GIDs that are mapped to `address`."""
        return tuple(gid for gid in self.gids if gid.roce_v2 and gid.ipv4 == address)


@dataclass(frozen=True, slots=True, kw_only=True)
class PciFunction:
    """A PCI function of the ConnectX; on a Spark each has four lanes of PCIe Gen5."""

    address: str
    width: int | None = None
    max_width: int | None = None
    speed: str = ""

    @property
    def port(self) -> int | None:
        """The QSFP port it belongs to: the function number (0002:01:00.1 is port 1)."""
        digit = self.address.rpartition(".")[2]
        return parse_digits(digit)


def parse_hcas(readings: Readings) -> tuple[Hca, ...]:
    """Return every port of every RDMA device, in the order of their names."""
    return tuple(_iterate_hcas(readings))


def _iterate_hcas(readings: Readings) -> Iterator[Hca]:
    netdevs = {
        **parse_ibdev2netdev(readings.text("ibdev2netdev")),
        **parse_rdma_link(readings.text("rdma link")),
    }
    mtus = parse_active_mtus(readings.text("ibv_devinfo"))
    for name in readings.names(RDMA):
        base = f"{RDMA}/{name}"
        here = readings.names(f"{base}/device/net")
        for port in readings.names(f"{base}/ports"):
            if (number := parse_digits(port)) is None:
                continue
            at = f"{base}/ports/{port}"
            yield Hca(
                name=name,
                port=number,
                netdev=here[0] if here else netdevs.get(name),
                state=_parse_state(readings.text(f"{at}/state")),
                phys_state=_parse_state(readings.text(f"{at}/phys_state")),
                rate=_parse_leading_number(readings.text(f"{at}/rate")),
                link_layer=readings.text(f"{at}/link_layer"),
                firmware=readings.text(f"{base}/fw_ver"),
                active_mtu=mtus.get(name),
                gids=tuple(_parse_gids(readings, at)),
                counters=_parse_counters(readings, at),
            )


def _parse_state(text: str) -> str:
    return text.rpartition(":")[2].strip()  # "4: ACTIVE"


def _parse_leading_number(text: str) -> int | None:
    digits = text.partition(" ")[0]  # "200 Gb/sec (4X HDR)"
    return parse_digits(digits)


def _parse_gids(readings: Readings, port: str) -> Iterator[Gid]:
    kinds = readings.table(f"{port}/gid_attrs/types")
    netdevs = readings.table(f"{port}/gid_attrs/ndevs")
    for index, text in readings.table(f"{port}/gids").items():
        with contextlib.suppress(ValueError):  # an empty entry
            yield Gid(
                index=int(index),
                address=IPv6Address(text),
                kind=kinds.get(index, ""),
                netdev=netdevs.get(index, ""),
            )


def _parse_counters(readings: Readings, port: str) -> Mapping[str, int]:
    values = {**readings.table(f"{port}/counters"), **readings.table(f"{port}/hw_counters")}
    counts = {name: parse_digits(value) for name, value in values.items()}
    return {name: count for name, count in counts.items() if count is not None}


def parse_pci_functions(readings: Readings) -> tuple[PciFunction, ...]:
    """Return the PCI functions of ConnectX adapters; none means that the NIC left the bus."""
    return tuple(
        PciFunction(
            address=name,
            width=readings.number(f"{PCI}/{name}/current_link_width"),
            max_width=readings.number(f"{PCI}/{name}/max_link_width"),
            speed=readings.text(f"{PCI}/{name}/current_link_speed"),
        )
        for name in readings.names(PCI)
        if readings.text(f"{PCI}/{name}/vendor") == MELLANOX
    )


def parse_rdma_devices(readings: Readings) -> Mapping[str, bool]:
    """Return name -> may be opened, of ``/dev/infiniband``."""
    return {name: may == "True" for name, may in readings.table("/dev/infiniband").items()}
