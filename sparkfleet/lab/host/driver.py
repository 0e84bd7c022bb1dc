"""The mlx5 driver's part in a lab host: RDMA devices that follow the netdevs.

Runs in PID 1, notified by the kernel of every change of a link or an address. Sockets of a real
network carry the traffic, so carrier, MTU and byte counters need no help.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from sparkfleet.lab.host import kernel
from sparkfleet.lab.host.hardware import FIRST_IPV4_GID, Slots, update_gid_slots
from sparkfleet.lab.host.kernel import MountFlag
from sparkfleet.lab.host.sysfs import (
    PCI_DEVICES,
    RDMA_CLASS,
    build_function_files,
    build_port_files,
    format_link_speed,
    locate_netdev,
    locate_port,
    locate_slot,
    plan_gid_slots,
)
from sparkfleet.lab.paths import CGROUPS, GID_FIRST, GID_HOLE, LOSSY, SYS_LAYERS
from sparkfleet.lab.plan import HostPlan, Port

SYS = Path("/sys")
LOSS_INTERVAL = 0.2  # seconds between two looks at a lossy rail
LOSS_COUNTERS = ("packet_seq_err", "out_of_sequence", "roce_adp_retrans")
LOSS_PERCENT = 30


class Driver:
    """The state of a host's ConnectX-7 in /sys, and since when."""

    def __init__(self, host: HostPlan) -> None:
        self.host = host
        self.links = _list_links()
        self.received: dict[str, int] = {}
        self.shown: dict[Path, str | None] = {}
        self.slots: dict[str, Slots] = {}
        for port in host.ports:
            self._plan(port)

    @property
    def interval(self) -> float | None:
        """Seconds until `count_losses` wants to run again; None while no rail loses packets."""
        return LOSS_INTERVAL if LOSSY.exists() else None

    def follow(self) -> None:
        """Show every function as its netdev is now."""
        if self.links != (links := _list_links()):
            self.links = links
            remount_sys()
        present = {name for _, name in links}
        addresses = _list_ipv4_addresses()
        first = int(GID_FIRST.read_text()) if GID_FIRST.exists() else FIRST_IPV4_GID
        holes = GID_HOLE.read_text().split() if GID_HOLE.exists() else []
        for port in self.host.ports:
            self._plug(port, present=port.netdev in present)
            ipv4 = () if port.netdev in holes else addresses.get(port.netdev, ())
            slots = self.slots[port.netdev] = update_gid_slots(self.slots[port.netdev], ipv4)
            self._show(
                _list_state_files(port, carrier=_has_carrier(port), slots=slots, first=first)
            )

    def _plug(self, port: Port, *, present: bool) -> None:
        """Make the PCI device and the RDMA device come and go with the netdev."""
        slot = SYS / locate_slot(port.function.slot)
        if present and not slot.exists():
            build_function_files(self.host, port).write(SYS)
            self._plan(port)
            del self.shown[_speed_file(port)]  # the file outlived its netdev
        elif slot.exists() and not present:
            (SYS / RDMA_CLASS / port.function.hca).unlink(missing_ok=True)
            (SYS / PCI_DEVICES / port.function.slot).unlink(missing_ok=True)
            shutil.rmtree(slot)

    def _plan(self, port: Port) -> None:
        """Note that a port shows what the plan says, as `sysfs` and `function` write it."""
        slots = self.slots[port.netdev] = plan_gid_slots(port)
        self.shown |= _list_state_files(port, carrier=port.wire is not None, slots=slots)

    def _show(self, files: Mapping[Path, str | None]) -> None:
        for path, text in files.items():
            if self.shown.get(path) == text or not path.parent.exists():
                continue
            if path.name == "state" and text == "1: DOWN":
                _increase_counter(path.parent / "counters/link_downed", 1)
            if text is None:
                path.unlink(missing_ok=True)
            else:
                path.write_text(f"{text}\n")
            self.shown[path] = text

    def count_losses(self) -> None:
        """Let the error counters of a lossy rail rise with its traffic, as RoCE's would."""
        lossy = LOSSY.read_text().split() if LOSSY.exists() else []
        for port in self.host.ports:
            if port.netdev not in lossy:
                self.received.pop(port.netdev, None)
                continue
            statistics = SYS / "class/net" / port.netdev / "statistics/rx_packets"
            packets = int(statistics.read_text())
            lost = (packets - self.received.get(port.netdev, packets)) * LOSS_PERCENT // 100
            self.received[port.netdev] = packets
            for name in LOSS_COUNTERS:
                _increase_counter(SYS / locate_port(port) / "hw_counters" / name, lost)


def remount_sys() -> None:
    """Mount /sys anew: an overlay does not see folders that come and go below it."""
    for _ in ("overlay", "sysfs"):
        kernel.unmount(SYS)
    mount_sys(SYS, SYS_LAYERS)
    if CGROUPS.exists():
        kernel.mount(CGROUPS, SYS / "fs/cgroup", flags=MountFlag.BIND | MountFlag.RECURSIVE)


def mount_sys(target: Path, layers: Path) -> None:
    """Mount on `target` the kernel's sysfs of this network namespace under our layer."""
    safe = MountFlag.NO_SUID | MountFlag.NO_DEV | MountFlag.NO_EXEC
    kernel.mount("sysfs", target, "sysfs", safe)
    kernel.mount_overlay(target, str(target), layers)


def _list_state_files(
    port: Port, *, carrier: bool, slots: Slots, first: int = FIRST_IPV4_GID
) -> dict[Path, str | None]:
    """Return every file that follows the state of a netdev, with what it says."""
    base = SYS / locate_port(port)
    files = build_port_files(port, carrier=carrier, slots=slots, first=first)
    by_path = {base / name: text for name, text in files.items()}
    return {**by_path, _speed_file(port): format_link_speed(carrier=carrier)}


def _speed_file(port: Port) -> Path:
    return SYS / locate_netdev(port.netdev) / "speed"


def _list_links() -> frozenset[tuple[int, str]]:
    """Return the interfaces by index, without the ends of containers' wires: no driver's."""
    links = socket.if_nameindex()
    return frozenset((index, name) for index, name in links if not name.startswith("veth"))


def _list_ipv4_addresses() -> dict[str, tuple[str, ...]]:
    """Return the IPv4 addresses by interface, in the kernel's order."""
    argv = ["ip", "-json", "-4", "address"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return {
        link["ifname"]: tuple(address["local"] for address in link["addr_info"])
        for link in json.loads(done.stdout)
        if link.get("addr_info")
    }


def _has_carrier(port: Port) -> bool:
    try:
        return (SYS / "class/net" / port.netdev / "carrier").read_text() == "1\n"
    except OSError:  # EINVAL while it is administratively down, ENOENT once it no longer exists
        return False


def _increase_counter(counter: Path, count: int) -> None:
    if count and counter.exists():
        counter.write_text(f"{int(counter.read_text()) + count}\n")
