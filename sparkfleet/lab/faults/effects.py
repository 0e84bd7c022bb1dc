"""The effects of each fault, as functions from the plan of a fleet and one of its hosts to steps.

A fault of one rail takes the host's first, unless it says the second.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from sparkfleet.lab.faults.steps import FaultStep, HostScript, InitFile, IpBatch, KillHost
from sparkfleet.lab.host import hardware, network
from sparkfleet.lab.paths import SWITCH
from sparkfleet.lab.plan import (
    FABRIC_MTU,
    WIFI_GATEWAY,
    WIFI_NET,
    FleetPlan,
    HostPlan,
    Port,
    format_address,
)

Steps = Callable[[FleetPlan, HostPlan], Iterable[FaultStep]]
Ends = Sequence[tuple[HostPlan, Port]]


def repeat_steps(*steps: FaultStep) -> Steps:
    """Return steps that are the same for every host."""
    return lambda _, __: steps


def hide_rdma(*, hidden: bool) -> Steps:
    """Return steps that take the RDMA devices from /sys, not the netdevs, or bring them back."""
    old, new = ("infiniband", ".infiniband") if hidden else (".infiniband", "infiniband")
    return repeat_steps(
        HostScript(
            script=f"""
            if [ -d /sys/class/{old} ]; then mv /sys/class/{old} /sys/class/{new}; fi
            for tree in /sys/bus/pci/devices/*/{old}; do
                if [ -d "$tree" ]; then mv "$tree" "${{tree%/*}}/{new}"; fi
            done
            """
        )
    )


def set_cable(state: str) -> Steps:
    """Return steps that plug the host's first cable in (`up`) or pull it (`down`)."""

    def steps(plan: FleetPlan, host: HostPlan) -> list[FaultStep]:
        cage = host.rails[0].function.cage
        rails = [port for port in host.rails if port.function.cage == cage]
        return [_switch_ends(_list_dark_ends(plan, host, rails), state)]

    return steps


def on_rail(number: int, *lines: str) -> Steps:
    """Return steps of `ip` lines in the host's namespace about ``{rail}``, its rail `number`."""
    return lambda _, host: [
        _in_host(host, *(line.format(rail=host.rails[number].netdev) for line in lines))
    ]


def on_switch_port(line: str) -> Steps:
    """Return steps of an `ip` line about ``{port}``, the switch's end of the first rail."""
    return lambda _, host: [_in_switch(line.format(port=host.peer_port(host.rails[0].netdev)))]


def set_management(state: str) -> Steps:
    """Return steps that plug the cable of the management port in (`up`) or pull it (`down`)."""
    return lambda _, host: [_in_switch(f"link set {host.peer_port(hardware.MANAGEMENT)} {state}")]


def in_host(*lines: str) -> Steps:
    """Return steps of `ip` lines in the host's namespace."""
    return lambda _, host: [_in_host(host, *lines)]


def name_first_rail(path: Path) -> Steps:
    """Return steps that name the first rail of the host to its PID 1, in file `path`."""
    return lambda _, host: [InitFile(path=path, text=host.rails[0].netdev)]


def change_address(number: int, new: Callable[[FleetPlan, HostPlan], str | None]) -> Steps:
    """Return steps that give rail `number` the address that `new` says, in place of all others."""

    def steps(plan: FleetPlan, host: HostPlan) -> list[FaultStep]:
        rail = host.rails[number].netdev
        new_address = new(plan, host)
        lines = [f"address flush dev {rail} scope global"]
        lines += [f"address add {new_address}/24 brd + dev {rail}"] if new_address else []
        return [_in_host(host, *lines)]

    return steps


def restore_address(number: int) -> Steps:
    """Return steps that give rail `number` the address of the plan again."""
    return change_address(number, lambda _, host: host.rails[number].address)


def choose_no_address(_: FleetPlan, __: HostPlan) -> None:
    """Return no address."""


def choose_other_subnet(_: FleetPlan, host: HostPlan) -> str:
    """Return an address in a subnet that no other host has."""
    return format_address(100 + _first_rail_net(host), host.number)


def duplicate_subnet(_: FleetPlan, host: HostPlan) -> str:
    """Return an address for the second rail in the subnet of the first."""
    return format_address(_first_rail_net(host), 100 + host.number)


def duplicate_address(plan: FleetPlan, host: HostPlan) -> str | None:
    """Return the address that another host has on the first rail's wire."""
    wire = host.rails[0].wire
    members = plan.ends(wire) if wire else ()
    return next((port.address for member, port in members if member is not host), None)


def remove_nic(plan: FleetPlan, host: HostPlan) -> list[FaultStep]:
    """Return steps that take the ConnectX-7 off the bus; direct peers lose their carrier."""
    lines = [f"link delete {host.peer_port(port.netdev)}" for port in host.ports]
    return [_switch_ends(_list_peer_ends(plan, host), "down"), _in_switch(*lines)]


def restore_nic(plan: FleetPlan, host: HostPlan) -> list[FaultStep]:
    """Return steps that bring it back as planned."""
    lines = [line for port in host.ports for line in network.build_port_commands(port)]
    far = _switch_ends(_list_peer_ends(plan, host), "up")
    return [_in_switch(*network.build_port_links(host)), _in_host(host, *lines), far]


def cut_power(plan: FleetPlan, host: HostPlan) -> list[FaultStep]:
    """Return steps that end all processes of the host and darken its cables, in that order."""
    management = f"link set {host.peer_port(hardware.MANAGEMENT)} down"
    return [
        KillHost(),
        _switch_ends(_list_dark_ends(plan, host, host.rails), "down"),
        _in_switch(management),
    ]


def restore_power(plan: FleetPlan, host: HostPlan) -> list[FaultStep]:
    """Return steps that light its cables again; the host has to be booted after them."""
    management = f"link set {host.peer_port(hardware.MANAGEMENT)} up"
    return [_switch_ends(_list_dark_ends(plan, host, host.rails), "up"), _in_switch(management)]


def swap_cages(plan: FleetPlan, host: HostPlan) -> list[FaultStep]:
    """Return steps that plug each cable of the host into its other cage."""
    return _replug_cables(plan, host, _pair_cages(host))


def unswap_cages(plan: FleetPlan, host: HostPlan) -> list[FaultStep]:
    """Return steps that plug each cable in where it belongs."""
    return _replug_cables(plan, host, [(port, port) for port in host.ports])


def enable_wifi(_: FleetPlan, host: HostPlan) -> list[FaultStep]:
    """Return steps that bring Wi-Fi up with a default route that wins."""
    return [
        _in_switch(f"link set {host.peer_port(hardware.WIFI)} up"),
        _in_host(
            host,
            f"address add {format_address(WIFI_NET, host.number)}/24 brd + dev {hardware.WIFI}",
            f"route add default via {WIFI_GATEWAY} dev {hardware.WIFI} proto dhcp metric 50",
        ),
    ]


def disable_wifi(_: FleetPlan, host: HostPlan) -> list[FaultStep]:
    """Return steps that take Wi-Fi down again, and its routes with it."""
    return [
        _in_host(host, f"address flush dev {hardware.WIFI} scope global"),
        _in_switch(f"link set {host.peer_port(hardware.WIFI)} down"),
    ]


def _pair_cages(host: HostPlan) -> list[tuple[Port, Port]]:
    """Return each port with the one of the other cage that is on its PCI device."""
    pairs = itertools.permutations(host.ports, 2)
    return [(port, twin) for port, twin in pairs if _pci_device(port) == _pci_device(twin)]


def _pci_device(port: Port) -> str:
    return port.function.slot.rpartition(".")[0]


def _replug_cables(
    plan: FleetPlan, host: HostPlan, pairs: Iterable[tuple[Port, Port]]
) -> list[FaultStep]:
    """Return steps that pull all cables of a host, and plug in each of `pairs`: into, cable of."""
    pulled = [_switch_ends([(host, port) for port in host.ports], "down")]
    far = _list_peer_ends(plan, host)
    plugged = _in_switch(
        *(line for target, origin in pairs for line in _plug_cable(host, target, origin))
    )
    return [*pulled, _switch_ends(far, "down"), plugged, _switch_ends(far, "up")]


def _plug_cable(host: HostPlan, port: Port, cable_of: Port) -> list[str]:
    """Return the lines that put into `port` the cable that the plan has in `cable_of`."""
    end = host.peer_port(port.netdev)
    if cable_of.wire is None:
        return [f"link set {end} nomaster down"]
    return [f"link set {end} mtu {FABRIC_MTU} master {cable_of.wire.bridge} up"]


def _in_host(host: HostPlan, *lines: str) -> IpBatch:
    return IpBatch(namespace=host.namespace, lines=lines)


def _in_switch(*lines: str) -> IpBatch:
    return IpBatch(namespace=SWITCH, lines=lines)


def _switch_ends(ends: Ends, state: str) -> IpBatch:
    return _in_switch(*(f"link set {host.peer_port(port.netdev)} {state}" for host, port in ends))


def _list_dark_ends(plan: FleetPlan, host: HostPlan, ports: Iterable[Port]) -> Ends:
    """Return all ports that go dark when cables are pulled from `ports` of a host."""
    return [end for port in ports for end in plan.dark_ends(host, port)]


def _list_peer_ends(plan: FleetPlan, host: HostPlan) -> Ends:
    return [end for end in _list_dark_ends(plan, host, host.rails) if end[0] is not host]


def _first_rail_net(host: HostPlan) -> int:
    wire = host.rails[0].wire
    return wire.net if wire else 0
