"""GIDs that are missing or moved, which re-adding the address of their rail repairs; pure.

The kernel gives an address the first free entry of the table of GIDs, so an index depends on the
history of the interface; a hole stays until an address is added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from sparkfleet.links.model import Fabric, Rail


@dataclass(frozen=True, slots=True, kw_only=True)
class GidFault:
    """A rail whose RoCE v2 GID is missing (`index` None), or not where most rails have it."""

    rail: Rail
    index: int | None
    usual: int | None

    def __str__(self) -> str:
        hca = self.rail.hca.name if self.rail.hca else ""
        seen = "no RoCE v2 GID" if self.index is None else f"RoCE v2 GID at index {self.index}"
        usual = "" if self.usual is None else f", usual is {self.usual}"
        return f"{self.rail.host} {self.rail.name} ({hca}): {seen} for {self.rail.ip}{usual}"


def find_gid_faults(fabric: Fabric) -> Iterator[GidFault]:
    """Yield the rails in use whose GID is missing or moved, host by host."""
    indexes: dict[tuple[str, str], int | None] = {}
    rails = [rail for host in fabric.hosts for rail in fabric.rails[host] if rail.hca]
    for rail in rails:
        gids = rail.hca.ipv4_gids(rail.ip) if rail.hca else ()
        indexes[rail.host, rail.name] = gids[0].index if gids else None
    counts = Counter(index for index in indexes.values() if index is not None)
    usual = min(counts, key=lambda index: (-counts[index], index), default=None)
    for rail in rails:
        index = indexes[rail.host, rail.name]
        if index is None or index != usual:
            yield GidFault(rail=rail, index=index, usual=usual)
