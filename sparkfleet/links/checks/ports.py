"""Ports: up or not and why, speed, PCIe lanes, rails that are left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sparkfleet.links.evidence import Check, Evidence
from sparkfleet.links.model import Rail
from sparkfleet.model import Severity, Verdict
from sparkfleet.variables import find_default
from sparkfleet.verdicts import build_verdict, error, warning

LANES = 4  # of PCIe that the SoC gives a function
NET = "/sys/class/net"


def check_port_state(evidence: Evidence) -> Iterator[Verdict]:
    """Expect a link on every rail of a cabled cage; distinguish no cable from switched off."""
    for host in evidence.hosts:
        for rail in (*evidence.fabric.rails[host], *evidence.twins(host)):
            if not rail.netdev.carrier:
                yield _report_down(evidence, rail)


def _report_down(evidence: Evidence, rail: Rail) -> Verdict:
    netdev = rail.netdev
    every = evidence.every_rail(rail.host)
    twins = [candidate for candidate in every if candidate.port == rail.port and candidate != rail]
    lit = [
        candidate
        for candidate in every
        if candidate.port != rail.port and candidate.netdev.carrier and candidate.address is None
    ]
    if not netdev.admin_up:
        actual = "administratively down"
        fix = f"sudo ip link set {netdev.name} up"
    elif lit and not any(twin.netdev.carrier for twin in twins):
        actual = (
            f"no carrier, while {_join_rail_names(lit)} of the other cage has one, and no address"
        )
        fix = f"the cable is in the other cage: plug it into that of {rail.name}, or give its "
        fix += f"address to {lit[0].name}"
    elif not any(twin.netdev.carrier for twin in twins):
        actual = "no cable, or none at the other end"
        fix = "reseat the QSFP cable at both ends"
    else:
        # One port has one cable, so "no cable" by ethtool cannot be true of one rail alone.
        actual = f"no carrier, while {_join_rail_names(twins)} of the same port has one: "
        actual += "the cable or the driver is at fault"
        fix = f"to find out which: ethtool {netdev.name}; sudo dmesg | grep mlx5. Reseat the "
        fix += "cable at both ends, then reboot"
    return error(
        "link.down",
        rail.host,
        netdev.name,
        expected="the link to be up",
        seen=actual,
        source=f"{NET}/{netdev.name}/carrier",
        fix=fix,
    )


def _join_rail_names(rails: list[Rail]) -> str:
    return ", ".join(rail.name for rail in rails)


def check_port_speed(evidence: Evidence) -> Iterator[Verdict]:
    """Expect the rate of `link_speed` on every port.

    Less is an error where the inventory states the rate, and below half of it; else a warning: 100
    Gb/s cables are in use.
    """
    for rail in evidence.rails():
        host = evidence.hosts[rail.host]
        expected = int(host.get("link_speed") or find_default("link_speed"))
        actual = rail.netdev.speed
        if not rail.netdev.carrier or actual is None or actual >= expected:
            continue
        stated = "link_speed" in host.vars
        yield build_verdict(
            Severity.ERROR if stated or actual * 2 < expected else Severity.WARNING,
            "link.speed",
            rail.host,
            rail.name,
            expected=f"{expected} Mb/s",
            seen=f"{actual} Mb/s",
            source=f"{NET}/{rail.name}/speed",
            fix=(
                "on a switch, set the port to 200G-baseCR4; for a 100G cable set link_speed: 100000"
            ),
        )


def check_pcie_lanes(evidence: Evidence) -> Iterator[Verdict]:
    """Expect the four PCIe lanes that a Spark gives each function."""
    for rail in evidence.rails():
        functions = evidence.facts[rail.host].functions
        function = next(
            (candidate for candidate in functions if candidate.address == rail.netdev.pci), None
        )
        if function is not None and function.width is not None and function.width < LANES:
            yield warning(
                "link.pcie",
                rail.host,
                f"{rail.name} {function.address}",
                expected=f"x{LANES}",
                seen=f"x{function.width}",
                source=f"/sys/bus/pci/devices/{function.address}/current_link_width",
                fix="an old BIOS wires the second controller x2: sudo fwupdmgr update",
            )


def check_missing_rails(evidence: Evidence) -> Iterator[Verdict]:
    """Expect as many rails in each cage as in the others; a missing netdev has no link to check."""
    cages = [cage for host in evidence.hosts for cage in evidence.whole_cages(host)]
    most = max((len(cage.rails) for cage in cages), default=0)
    for cage in cages:
        if len(cage.rails) < most:
            yield error(
                "link.half_gone",
                cage.host,
                f"port {cage.port}",
                expected=f"{most} netdevs, as on the other hosts",
                seen=", ".join(rail.name for rail in cage.rails),
                source="/sys/class/net, /sys/bus/pci/devices",
                fix="the rest left the bus or has no driver: reseat the cable, then reboot",
            )


def check_unused_rails(evidence: Evidence) -> Iterator[Verdict]:
    """Expect both rails of a cabled cage in use: one carries about half.

    One whose other end has an address is meant to be used: then it is an error.
    """
    idle = [
        candidate
        for host in evidence.hosts
        for candidate in evidence.twins(host)
        if candidate.netdev.carrier
    ]
    ready = [
        candidate
        for candidate in idle
        if candidate.address is not None and not candidate.address.is_link_local
    ]
    for rail in idle:
        peers = [candidate for candidate in ready if candidate.host != rail.host]
        if rail in ready:
            if len(ready) == len(idle):
                yield _report_other_subnet(rail, peers)
        elif peers:
            yield _report_no_address(
                error, rail, f"an address like {_join_rail_addresses(peers)} has"
            )
        else:
            yield _report_no_address(warning, rail, "an address, so that both rails are used")


def _report_no_address(build: Callable[..., Verdict], rail: Rail, expected: str) -> Verdict:
    return build(
        "link.unused",
        rail.host,
        rail.name,
        expected=expected,
        seen=str(rail.address or "no IPv4 address, so no RoCE v2 GID either"),
        source="ip -j addr",
        fix="give it a static address in the subnet of the other end: {task:links.apply}; "
        "to use one rail only, set link_interfaces",
    )


def _report_other_subnet(rail: Rail, peers: list[Rail]) -> Verdict:
    return error(
        "link.subnet",
        rail.host,
        f"{rail.name} {rail.address}",
        expected="the subnet of the rail at the other end of its cable",
        seen=f"no other host in it; other end: {_join_rail_addresses(peers) or 'no second rail'}",
        source="ip -j addr",
        fix="give both ends addresses in one subnet; to use one rail only, set link_interfaces",
    )


def _join_rail_addresses(rails: list[Rail]) -> str:
    return ", ".join(f"{rail.host} {rail.name} {rail.address}" for rail in rails)


def check_bonds(evidence: Evidence) -> Iterator[Verdict]:
    """Refuse a rail in a bond or bridge: RoCE does not follow it."""
    for rail in evidence.rails():
        if rail.netdev.master:
            yield error(
                "link.bond",
                rail.host,
                rail.name,
                expected="an interface of its own",
                seen=f"part of {rail.netdev.master}",
                source=f"{NET}/{rail.name}/master",
                fix="remove it from the bond and give each rail its own address",
            )


CHECKS: tuple[Check, ...] = (
    check_port_state,
    check_port_speed,
    check_pcie_lanes,
    check_missing_rails,
    check_unused_rails,
    check_bonds,
)
