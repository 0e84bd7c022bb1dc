"""The plan of a fabric: the address of each rail, and the change of each host; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Interface, IPv4Network

from sparkfleet.errors import InputError
from sparkfleet.facts import HostFacts
from sparkfleet.links.addressing.allocation import FIRST_SUBNET, RailKey, allocate_addresses
from sparkfleet.links.addressing.host_change import HostChange, plan_host_change
from sparkfleet.links.addressing.host_network import HostNetwork
from sparkfleet.links.addressing.plan_checks import PlanEvidence, check_plan, refuse_file
from sparkfleet.links.addressing.planned_rail import PlannedRail
from sparkfleet.links.addressing.wiring import Answers, RailGroup, group_rails
from sparkfleet.links.model import Fabric, Rail
from sparkfleet.links.netplan_fix import JUMBO
from sparkfleet.links.selection import find_qsfp_rails, select_fabric
from sparkfleet.model import Host, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricInputs:
    """The facts, networks and answers on the wires that a plan is made of; hosts by rank."""

    hosts: tuple[Host, ...]
    facts: Mapping[str, HostFacts]
    networks: Mapping[str, HostNetwork]
    answers: Answers


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricPlan:
    """The rails of each host as planned, the change of each host, and why it is refused."""

    rails: Mapping[str, tuple[PlannedRail, ...]]
    changes: Mapping[str, HostChange]
    fabric: Fabric  # as it will be
    refusals: tuple[Verdict, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether every host is as planned."""
        return all(change.empty for change in self.changes.values())


def plan_fabric(
    inputs: FabricInputs, *, first: IPv4Network = FIRST_SUBNET, arp: bool = False
) -> FabricPlan:
    """Return the plan of a fabric; `first` is the subnet of its first rails without one.

    With `arp` each rail is also to answer ARP requests for its own address only.
    """
    rails = {host.name: _list_usable_rails(inputs, host) for host in inputs.hosts}
    groups = group_rails(rails, inputs.answers)
    order = [host.name for host in inputs.hosts]
    foreign = _list_foreign_networks(inputs, groups)
    addresses = allocate_addresses(
        groups, order, first=first, stated=_read_stated_addresses(inputs), foreign=foreign
    )
    planned = {host.name: tuple(_plan_rails(host, groups, addresses)) for host in inputs.hosts}
    fabric = select_fabric(_project_facts(inputs.facts, planned), inputs.hosts)
    changes: dict[str, HostChange] = {}
    broken: list[Verdict] = []
    for name, network in inputs.networks.items():
        try:
            changes[name] = plan_host_change(network, planned[name], arp=arp)
        except InputError as error:
            broken.append(refuse_file(name, error.message))
            changes[name] = HostChange(host=name, sysctls={})
    evidence = PlanEvidence(
        rails=rails, groups=groups, planned=planned, networks=inputs.networks, changes=changes
    )
    refusals = (*broken, *check_plan(evidence, fabric))
    return FabricPlan(rails=planned, changes=changes, fabric=fabric, refusals=refusals)


def _list_usable_rails(inputs: FabricInputs, host: Host) -> tuple[Rail, ...]:
    """Return the rails of a host, or those of them that `link_interfaces` names."""
    rails = find_qsfp_rails(inputs.facts[host.name])
    named = tuple(map(str, host.get("link_interfaces") or ()))
    return tuple(rail for rail in rails if not named or rail.name in named)


def _list_foreign_networks(inputs: FabricInputs, groups: Sequence[RailGroup]) -> list[IPv4Network]:
    """Return the subnets that any host uses on something else than a rail of the plan."""
    rails = {(rail.host, rail.name) for group in groups for rail in group.rails}
    return [
        used.network
        for host, network in inputs.networks.items()
        for used in network.used
        if (host, used.netdev) not in rails
    ]


def _read_stated_addresses(inputs: FabricInputs) -> Mapping[RailKey, IPv4Interface]:
    return {
        (host.name, str(netdev)): IPv4Interface(str(address))
        for host in inputs.hosts
        for netdev, address in (host.get("link_addresses") or {}).items()
    }


def _plan_rails(
    host: Host, groups: Sequence[RailGroup], addresses: Mapping[RailKey, IPv4Interface]
) -> Iterator[PlannedRail]:
    for group in groups:
        for rail in group.rails:
            if rail.host == host.name:
                yield PlannedRail(
                    rail=rail,
                    address=addresses[rail.host, rail.name],
                    mtu=int(host.get("link_mtu") or JUMBO),
                    peers=tuple(name for name in group.hosts if name != host.name),
                )


def _project_facts(
    facts: Mapping[str, HostFacts], planned: Mapping[str, tuple[PlannedRail, ...]]
) -> Mapping[str, HostFacts]:
    """Return the facts as they will be."""
    projected = {}
    for name, host_facts in facts.items():
        by_name = {rail.name: rail for rail in planned[name]}
        netdevs = tuple(
            replace(netdev, addresses=(by_name[netdev.name].address,), mtu=by_name[netdev.name].mtu)
            if netdev.name in by_name
            else netdev
            for netdev in host_facts.netdevs
        )
        projected[name] = replace(host_facts, netdevs=netdevs)
    return projected
