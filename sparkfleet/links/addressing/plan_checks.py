"""The reasons for which a plan is refused; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

from sparkfleet.errors import InputError
from sparkfleet.links.addressing.host_change import HostChange, uses_keyfile
from sparkfleet.links.addressing.host_network import HostNetwork
from sparkfleet.links.addressing.netplan_files import find_shared_file, parse_netplan_files
from sparkfleet.links.addressing.planned_rail import PlannedRail
from sparkfleet.links.addressing.wiring import RailGroup, Rails
from sparkfleet.links.model import Fabric
from sparkfleet.model import Verdict
from sparkfleet.verdicts import error

OFFERS = ("192.168.200.0/24", "10.100.0.0/24", "172.31.100.0/24", "10.200.0.0/24")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEvidence:
    """The parts of a plan that its checks look at, by host."""

    rails: Rails
    groups: Sequence[RailGroup]
    planned: Mapping[str, tuple[PlannedRail, ...]]
    networks: Mapping[str, HostNetwork]
    changes: Mapping[str, HostChange]


def check_plan(evidence: PlanEvidence, fabric: Fabric) -> Iterator[Verdict]:
    """Yield a verdict for each reason that refuses the plan."""
    for check in CHECKS:
        yield from check(evidence)
    if all(evidence.planned.values()):
        yield from _check_topology(evidence, fabric)


def refuse_file(host: str, problem: str) -> Verdict:
    """Return the verdict on a file that cannot be read as what it should be."""
    return error(
        "plan.file",
        host,
        "netplan",
        expected="files that netplan can read",
        seen=problem,
        source="/etc/netplan",
        fix="correct that file; on that host: sudo netplan get",
    )


def _check_pending(evidence: PlanEvidence) -> Iterator[Verdict]:
    for host, network in evidence.networks.items():
        if network.pending:
            yield error(
                "plan.pending",
                host,
                "network",
                expected="no change that is waiting to be confirmed",
                seen=f"change {network.pending} of another run",
                source="/run/sparkfleet-links",
                fix="wait until it is confirmed or its timer restores what was before",
            )


def _check_cables(evidence: PlanEvidence) -> Iterator[Verdict]:
    for host, planned in evidence.planned.items():
        lit = [rail.name for rail in evidence.rails[host] if rail.netdev.carrier]
        if not planned:
            yield error(
                "plan.cable",
                host,
                ", ".join(rail.name for rail in evidence.rails[host]) or "ConnectX-7",
                expected="a cable to another host of the cluster",
                seen=f"no answer from a host of the cluster on {', '.join(lit)}"
                if lit
                else "no link",
                source="ping -6 ff02::1",
                fix="check both ends of the cable; are all hosts on it in the inventory?",
            )
        for rail in planned:
            if not rail.rail.netdev.carrier:
                yield error(
                    "plan.link",
                    host,
                    rail.name,
                    expected="a link, as the other rails of the cable have",
                    seen="no carrier",
                    source=f"/sys/class/net/{rail.name}/carrier",
                    fix=f"bring it up: sudo ip link set {rail.name} up; otherwise reseat the cable",
                )


def _check_topology(evidence: PlanEvidence, fabric: Fabric) -> Iterator[Verdict]:
    """Yield a verdict where the cables do not join all hosts; `fabric` is the planned one."""
    alone = [host for host in fabric.hosts if not fabric.rails[host]]
    if alone:
        cables = "; ".join(str(group) for group in evidence.groups)
        yield error(
            "plan.topology",
            alone[0],
            "cables",
            expected="a pair, a switch, or a ring that joins all hosts",
            seen=cables,
            source="ping -6 ff02::1",
            fix="cable three Sparks from port 0 of each to port 1 of the next, or all to a switch",
        )


def _check_collisions(evidence: PlanEvidence) -> Iterator[Verdict]:
    """Yield each planned subnet that some host uses for something else, both named."""
    rails = {(host, rail.name) for host, own in evidence.planned.items() for rail in own}
    used = {
        (host, used.network, used.netdev)
        for host, network in evidence.networks.items()
        for used in network.used
        if (host, used.netdev) not in rails
    }
    subnets = {rail.address.network: rail for own in evidence.planned.values() for rail in own}
    for network, rail in subnets.items():
        for host, other, netdev in sorted(used, key=str):
            if network.overlaps(other):
                yield error(
                    "plan.subnet",
                    host,
                    f"{network} of {rail.rail.host} {rail.name}",
                    expected="a subnet that no host uses for anything else",
                    seen=f"{other} on {netdev} of {host}",
                    source="ip route show table all, ip addr",
                    fix="choose another: {task:links.plan} --subnet "
                    + _offer_subnet(used, len(subnets)),
                )


def _offer_subnet(used: set[tuple[str, IPv4Network, str]], count: int) -> str:
    """Return a subnet from which so many in a row are free."""
    for offer in OFFERS:
        first = IPv4Network(offer)
        row = IPv4Network((first.network_address, 16 if count > 32 else 19), strict=False)
        if not any(row.overlaps(network) for _, network, _ in used):
            return offer
    return "NETWORK/24"


def _check_management(evidence: PlanEvidence) -> Iterator[Verdict]:
    """Yield a verdict for each rail of the plan by which the host is reached, and that changes."""
    for host, planned in evidence.planned.items():
        network = evidence.networks[host]
        changes = evidence.changes[host]
        for rail in planned:
            manages = any(own.ip == network.management for own in rail.rail.netdev.addresses)
            routes = rail.name in network.default_netdevs
            if (manages or routes) and (changes.edits or rail in changes.rails):
                seen = f"this login at {network.management}" if manages else "the default route"
                yield error(
                    "plan.management",
                    host,
                    rail.name,
                    expected="a rail that carries neither this login nor the default route",
                    seen=seen,
                    source="SSH_CONNECTION, ip route",
                    fix="set ansible_host to an address on Ethernet or Wi-Fi, and the default "
                    "route to that network",
                )


def _check_owners(evidence: PlanEvidence) -> Iterator[Verdict]:
    """Yield a verdict for each rail that no known service configures, or a file with others."""
    for host, planned in evidence.planned.items():
        network = evidence.networks[host]
        for rail in planned:
            if uses_keyfile(network, rail.name):
                continue
            if not network.netplan:
                yield error(
                    "plan.owner",
                    host,
                    rail.name,
                    expected="netplan, or NetworkManager that manages it",
                    seen="neither",
                    source="netplan, nmcli device",
                    fix="on that host: sudo apt-get install -y netplan.io",
                )
                continue
            yield from _check_shared_file(network, rail, planned)


def _check_shared_file(
    network: HostNetwork, rail: PlannedRail, planned: Sequence[PlannedRail]
) -> Iterator[Verdict]:
    try:
        files = tuple(parse_netplan_files(network.files))
    except InputError:  # refused already
        return
    shared = find_shared_file(files, rail.settings, [each.settings for each in planned])
    if shared:
        file, other = shared
        yield error(
            "plan.file",
            network.host,
            rail.name,
            expected="a netplan file that configures rails only",
            seen=f"{file.path}, which also configures {other}",
            source=file.path,
            fix=f"move {rail.name} from {file.path} to a file of its own, or remove it there",
        )


CHECKS: tuple[Callable[[PlanEvidence], Iterator[Verdict]], ...] = (
    _check_pending,
    _check_cables,
    _check_collisions,
    _check_management,
    _check_owners,
)
