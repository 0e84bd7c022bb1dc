"""The address of each rail: those that fit stay, the others are new; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

from sparkfleet.links.addressing.wiring import RailGroup
from sparkfleet.links.model import Rail

FIRST_SUBNET = IPv4Network("192.168.100.0/24")  # of NVIDIA's guides; .101 for the second rail
FIRST_NUMBER = 10  # of the first host in each subnet, where that many fit
RailKey = tuple[str, str]  # host and netdev


@dataclass(slots=True, kw_only=True)
class _Allocation:
    """The subnets and addresses that are decided so far."""

    order: Sequence[str]
    stated: Mapping[RailKey, IPv4Interface]
    foreign: Sequence[IPv4Network]
    networks: list[IPv4Network] = field(default_factory=list)
    addresses: dict[RailKey, IPv4Interface] = field(default_factory=dict)


def allocate_addresses(
    groups: Sequence[RailGroup],
    order: Sequence[str],
    *,
    first: IPv4Network = FIRST_SUBNET,
    stated: Mapping[RailKey, IPv4Interface],
    foreign: Sequence[IPv4Network] = (),
) -> Mapping[RailKey, IPv4Interface]:
    """Return the address of each rail, one subnet for each group.

    `order` are the hosts by rank, `first` the subnet of the first group without one: the next
    groups get the next subnets of that size. `stated` are the addresses of the inventory, which
    win; `foreign` are subnets that are used elsewhere, in which no address is kept.
    """
    state = _Allocation(order=order, stated=stated, foreign=foreign)
    kept = [_find_kept_network(group, state) for group in groups]
    for group, network in zip(groups, kept, strict=True):
        if network is not None:
            _number_rails(group, network, state)
    for group, network in zip(groups, kept, strict=True):
        if network is None:
            _number_rails(group, _find_next_network(first, state), state)
    return state.addresses


def _find_kept_network(group: RailGroup, state: _Allocation) -> IPv4Network | None:
    """Return the subnet that most rails of the group are in, and note that it is used."""
    wanted = [
        state.stated[_key(rail)].network for rail in group.rails if _key(rail) in state.stated
    ]
    counts = Counter(
        rail.network
        for rail in group.rails
        if rail.network is not None and not rail.network.is_link_local
    )
    candidates = [*wanted, *(network for network, _ in counts.most_common())]
    for network in candidates:
        taken = [*state.networks, *(() if network in wanted else state.foreign)]
        if not any(network.overlaps(used) for used in taken) and fits_group(network, group):
            state.networks.append(network)
            return network
    return None


def fits_group(network: IPv4Network, group: RailGroup) -> bool:
    """Return whether a subnet has an address for each rail of a group."""
    return network.num_addresses - 2 >= len(group.rails)


def _find_next_network(first: IPv4Network, state: _Allocation) -> IPv4Network:
    network = first
    while any(network.overlaps(used) for used in state.networks):
        start = int(network.network_address) + network.num_addresses
        network = IPv4Network((start, network.prefixlen))
    state.networks.append(network)
    return network


def _number_rails(group: RailGroup, network: IPv4Network, state: _Allocation) -> None:
    """Give each rail of a group its number: stated and fitting ones first, then by rank."""
    taken: set[IPv4Address] = set()
    for choose in (_choose_stated, _choose_own):
        for rail in group.rails:
            address = choose(rail, network, state)
            if address and address.ip not in taken and _key(rail) not in state.addresses:
                state.addresses[_key(rail)] = address
                taken.add(address.ip)
    for rail in group.rails:
        if _key(rail) not in state.addresses:
            ip = next(
                ip for ip in _list_numbers(network, state.order.index(rail.host)) if ip not in taken
            )
            state.addresses[_key(rail)] = IPv4Interface((ip, network.prefixlen))
            taken.add(ip)


def _choose_stated(rail: Rail, _network: IPv4Network, state: _Allocation) -> IPv4Interface | None:
    return state.stated.get(_key(rail))


def _choose_own(rail: Rail, network: IPv4Network, _state: _Allocation) -> IPv4Interface | None:
    return rail.address if rail.network == network else None


def _list_numbers(network: IPv4Network, rank: int) -> Iterator[IPv4Address]:
    """Yield the addresses of a subnet, first the one that fits the rank."""
    hosts = network.num_addresses - 2
    first = FIRST_NUMBER if hosts >= FIRST_NUMBER + rank else 1
    for step in range(hosts):
        yield network.network_address + 1 + (first - 1 + rank + step) % hosts


def _key(rail: Rail) -> RailKey:
    return (rail.host, rail.name)
