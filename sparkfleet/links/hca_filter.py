"""The grammar of NCCL_IB_HCA: which HCAs a value selects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sparkfleet.facts.rdma import Hca
from sparkfleet.values import parse_digits


@dataclass(frozen=True, slots=True, kw_only=True)
class HcaFilter:
    """A parsed value: ``[^][=]name[:port],...``.

    Names are prefixes unless `exact`; with `exclude` the members are those left out.
    """

    members: tuple[tuple[str, int | None], ...]
    exact: bool = False
    exclude: bool = False

    def matching(self, member: tuple[str, int | None], hcas: Iterable[Hca]) -> tuple[Hca, ...]:
        """Return the HCAs that one member names."""
        name, port = member
        return tuple(
            hca
            for hca in hcas
            if (hca.name == name if self.exact else hca.name.startswith(name))
            and port in (None, hca.port)
        )

    def selected(self, hcas: Iterable[Hca]) -> tuple[Hca, ...]:
        """Return the HCAs that NCCL would use."""
        every = tuple(hcas)
        named = {hca.name: hca for member in self.members for hca in self.matching(member, every)}
        return tuple(hca for hca in every if (hca.name in named) != self.exclude)


def parse_hca_filter(value: str) -> HcaFilter:
    """Parse a value of NCCL_IB_HCA; empty members are dropped, as NCCL does."""
    rest = value.strip()
    exclude = rest.startswith("^")
    rest = rest.removeprefix("^")
    exact = rest.startswith("=")
    members = []
    for member in rest.removeprefix("=").split(","):
        name, _, port = member.strip().partition(":")
        if name:
            members.append((name, parse_digits(port)))
    return HcaFilter(members=tuple(members), exact=exact, exclude=exclude)


def format_hca_filter(chosen: Iterable[Hca], every: Iterable[Hca]) -> str:
    """Return the value that selects exactly `chosen`: plain names, exact (``=``) where needed."""
    names = [hca.name for hca in chosen]
    unselected = [hca.name for hca in every if hca.name not in names]
    ambiguous = (
        any(candidate.startswith(tuple(names)) for candidate in unselected) if names else False
    )
    return ("=" if ambiguous else "") + ",".join(names)
