"""The wires of a fleet as lines for `ip -batch`: pure, and the one function that runs them.

A cable is one bridge with both rails of its cages, as a port has two PCIe functions: the bridge
delivers a unicast frame to the function with that MAC address, also to the twin of the sender, and
all others to every function.

Bridges and the far ends of all interfaces live in a namespace of their own, the switch. Its
interface indexes start at 1000: the kernel calls a veth without carrier DOWN, as a real NIC's
state reads, only while no interface of its own namespace has its peer's index; and it reports
a link whose ends have the same index up to a second late.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator

from sparkfleet.command_name import name_command
from sparkfleet.errors import UsageError
from sparkfleet.lab.host import hardware
from sparkfleet.lab.paths import CONTROL_NIC, CONTROL_PEER, SWITCH
from sparkfleet.lab.plan import (
    CONTROL,
    FABRIC_MTU,
    GATEWAY,
    WIFI_GATEWAY,
    FleetPlan,
    HostPlan,
    Port,
)

DOCKER_MAC = "02:42:ac:11:00:01"
DEFAULT_ROUTE = f"route add default via {GATEWAY} dev {hardware.MANAGEMENT} proto static metric 100"
SWITCH_INDEX = 1000
INDEXES_PER_HOST = 10
MANAGEMENT_INDEX = 2  # lo is 1, as everywhere
FIRST_PORT_INDEX = 3
WIFI_INDEX = 7


def build_namespace_commands(plan: FleetPlan) -> list[str]:
    """Return the lines for this machine: namespaces, and the one link into the lab."""
    names = [SWITCH, *(host.namespace for host in plan.hosts)]
    return [
        *(f"netns add {name}" for name in names),
        f"link add {CONTROL_PEER} index {SWITCH_INDEX} type veth peer name {CONTROL_NIC}",
        f"link set {CONTROL_PEER} netns {SWITCH}",
        f"address add {CONTROL}/24 dev {CONTROL_NIC}",
        f"link set {CONTROL_NIC} up",
    ]


def build_switch_commands(plan: FleetPlan) -> list[str]:
    """Return the lines for the switch: its bridges, and every host's interfaces."""
    lines = ["link set lo up"]
    for bridge, mtu in (("manage", 1500), ("wifi", 1500), *_wire_bridges(plan)):
        lines += [
            f"link add {bridge} mtu {mtu} type bridge",
            f"link set {bridge} addrgenmode none",  # a wire answers no ping to all IPv6 nodes
            f"link set {bridge} up",
        ]
    lines += [
        f"link set {CONTROL_PEER} master manage up",
        f"address add {GATEWAY}/24 dev manage",
        f"address add {WIFI_GATEWAY}/24 dev wifi",
        "route add unreachable default",
    ]
    for host in plan.hosts:
        lines += _host_links(host)
    return lines


def build_host_commands(host: HostPlan) -> list[str]:
    """Return the lines for a host's own namespace: addresses, routes, everything up."""
    lines = [
        "link set lo up",
        f"address add {host.address}/24 brd + dev {hardware.MANAGEMENT}",
        f"link set {hardware.MANAGEMENT} up",
        f"link set {hardware.WIFI} up",
        DEFAULT_ROUTE,
        f"link add {hardware.DOCKER} address {DOCKER_MAC} type bridge",
        f"link set {hardware.WIFI} master {hardware.DOCKER}",  # a bridge that lost its last
        f"link set {hardware.WIFI} nomaster",  # port has no carrier, like Docker's unused one
        f"address add 172.17.0.1/16 brd + dev {hardware.DOCKER}",
        f"link set {hardware.DOCKER} up",
    ]
    for port in host.ports:
        lines += build_port_commands(port)
    return lines


def build_port_commands(port: Port) -> list[str]:
    """Return the lines that bring up one function in its host's namespace, with its address."""
    lines = [f"link set {port.netdev} up"]
    if port.address:
        lines.append(f"address add {port.address}/24 brd + dev {port.netdev}")
    return lines


def build_reset_commands(host: HostPlan) -> list[str]:
    """Return the lines that make a host's rails as they are before anything configures them.

    Its network namespace outlives its processes; the state of a NIC does not outlive a loss of
    power.
    """
    lines = []
    for port in host.ports:
        lines += [
            f"address flush dev {port.netdev} scope global",
            f"link set {port.netdev} mtu {port.mtu}",
            *build_port_commands(port),
        ]
    return lines


def build_port_links(host: HostPlan) -> list[str]:
    """Return the switch's lines that make the four functions of a host and plug in its cables."""
    lines = []
    for position, port in enumerate(host.ports):
        lines.append(
            _veth_command(
                host,
                port.netdev,
                FIRST_PORT_INDEX + position,
                port.mac,
                mtu=(port.wire_mtu, port.mtu),
            )
        )
        if port.wire:
            lines.append(f"link set {host.peer_port(port.netdev)} master {port.wire.bridge} up")
    return lines


def _host_links(host: HostPlan) -> list[str]:
    manage = hardware.MANAGEMENT
    wifi = hardware.WIFI
    mac = hardware.format_mac(host.number, hardware.MANAGEMENT_MAC_OFFSET)
    radio = hardware.format_mac(host.number, hardware.WIFI_MAC_OFFSET)
    return [
        _veth_command(host, manage, MANAGEMENT_INDEX, mac),
        f"link set {host.peer_port(manage)} master manage up",
        *build_port_links(host),
        _veth_command(host, wifi, WIFI_INDEX, radio),
        f"link set {host.peer_port(wifi)} master wifi",  # down: not associated
    ]


def _veth_command(
    host: HostPlan, netdev: str, index: int, mac: str, *, mtu: tuple[int, int] = (1500, 1500)
) -> str:
    """Return the line for a veth; `mtu` is that of the switch's end and of the host's."""
    far = SWITCH_INDEX + INDEXES_PER_HOST * host.number + index
    return (
        f"link add {host.peer_port(netdev)} index {far} mtu {mtu[0]} type veth"
        f" peer name {netdev} index {index} mtu {mtu[1]} address {mac} netns {host.namespace}"
    )


def _wire_bridges(plan: FleetPlan) -> Iterator[tuple[str, int]]:
    names = dict.fromkeys(wire.bridge for wire in plan.wires)
    return ((name, FABRIC_MTU) for name in names)


def run_ip(lines: Iterable[str], namespace: str | None = None) -> None:
    """Run `ip -batch` in a namespace of the lab, or in this machine's own; raises UsageError."""
    where = ["-n", namespace] if namespace else []
    done = subprocess.run(
        ["ip", *where, "-batch", "-"],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=False,
        close_fds=False,  # the lab's lock goes along, see `state.locked`
    )
    if done.returncode:
        raise UsageError(
            f"this machine's kernel refused a part of the lab's network: {done.stderr.strip()}",
            hint="network namespaces, veth and bridges are needed; "
            f"see: {name_command('docs')} lab",
        )
