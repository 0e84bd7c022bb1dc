"""The cable map as lines of text, for a terminal; pure."""

from __future__ import annotations

from collections.abc import Iterator

from sparkfleet.links.model import Cable, Fabric, Rail, Topology

UNBOUNDED = 10_000  # columns
NOTHING = "no cable of this cluster"


def render_text_map(fabric: Fabric, width: int = UNBOUNDED) -> Iterator[str]:
    """Yield the map: which hosts are connected, over which rails.

    Where a line would be longer than `width` columns, the two ends of a rail are on lines of their
    own.
    """
    if fabric.topology is Topology.SWITCH:
        yield from _render_switch(fabric)
    else:
        for cable in fabric.cables:
            lines = list(_render_cable(cable))
            fits = max(map(len, lines)) <= width
            yield from lines if fits else _render_narrow_cable(cable)
    for host in fabric.hosts:
        unset = [
            rail.name for rail in fabric.spare[host] if rail.netdev.carrier and not rail.address
        ]
        if unset:
            yield f"{host}: up, without an IPv4 address: {', '.join(unset)}"
        elif not fabric.rails[host]:
            yield f"{host}: {NOTHING}"
    if fabric.order:
        yield f"ring: {' - '.join((*fabric.order, fabric.order[0]))}"
    if fabric.control:
        meet = (f"{host} {rail.name} {rail.ip}" for host, rail in fabric.control.items())
        yield f"meet on: {', '.join(meet)}"


def _render_cable(cable: Cable) -> Iterator[str]:
    """Yield a line for the two cages, and one for each rail between them."""
    first, second = cable.ends
    rails = cable.rails(first.host, second.host)
    left = [str(first), *(f"  {_format_rail(mine)}" for mine, _ in rails)]
    right = [str(second), *(f"  {_format_rail(theirs)}" for _, theirs in rails)]
    width = max(map(len, left))
    for at, (start, end) in enumerate(zip(left, right, strict=True)):
        yield f"{start:<{width}}  {'=====' if at == 0 else '-----'}  {end}".rstrip()


def _render_narrow_cable(cable: Cable) -> Iterator[str]:
    first, second = cable.ends
    yield f"{first}  =====  {second}"
    for mine, theirs in cable.rails(first.host, second.host):
        yield f"         {_format_rail(mine)}".rstrip()
        yield f"  -----  {_format_rail(theirs)}".rstrip()


def _render_switch(fabric: Fabric) -> Iterator[str]:
    """Yield the switch with its subnets, and a branch for each cage plugged into it."""
    rails = [rail for host_rails in fabric.rails.values() for rail in host_rails]
    yield f"switch  {', '.join(dict.fromkeys(str(rail.network) for rail in rails))}"
    cages = [cage for host in fabric.hosts for cage in fabric.cages(host)]
    for cage in cages:
        last = cage is cages[-1]
        yield f"{'`--' if last else '|--'} {cage}"
        for rail in cage.rails:
            yield f"{' ' if last else '|'}     {_format_rail(rail)}".rstrip()


def _format_rail(rail: Rail) -> str:
    hca = rail.hca.name if rail.hca else "no HCA"
    down = "" if rail.netdev.carrier else "down"
    return f"{rail.name:<13}  {hca:<12}  {rail.address!s:<18}{down}"
