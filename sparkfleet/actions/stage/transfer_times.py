"""Lines shown before a transfer: how many bytes go where, and the shortest time it takes; pure.

Only a measured rate is used; where there is none, the line says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from sparkfleet.quantities import format_seconds, format_size
from sparkfleet.weights.transfer.routes import Routes

BITS = 8 / 1e9  # Gb in a byte


def format_link_time(size: int, cable_gbps: float | None) -> str:
    """Return how long `size` bytes take between two hosts, at the rate of the slowest cable, Gb/s.

    The rate is that of the links receipt. It is the least time: what arrives is also hashed.
    """
    if not cable_gbps:
        return "the links have no current measurement, so the time is unknown"
    seconds = max(size * BITS / cable_gbps, 1)
    return f"{format_seconds(seconds)} or more at the measured {cable_gbps:.3g} Gb/s"


def format_transfer_routes(all_routes: Sequence[Routes], cable_gbps: float | None) -> Iterator[str]:
    """Yield a line for the bytes from outside the cluster, and one for those between hosts."""
    outside = sum(
        send.size for routes in all_routes for sends in routes.outside.values() for send in sends
    )
    legs: Counter[tuple[str, str]] = Counter()
    for leg in (leg for routes in all_routes for leg in routes.legs):
        legs[leg.sender, leg.receiver] += leg.size
    if outside:
        yield (
            f"from outside the cluster: {format_size(outside)}; its rate is unknown until bytes "
            "arrive, and is then shown with the time left"
        )
    if most := max(legs.values(), default=0):
        time = format_link_time(most, cable_gbps)
        yield f"from host to host: {format_size(most)} each at most; {time}"
