"""Compare the hosts with what the inventory states; silent where it states nothing."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from sparkfleet.links.evidence import Check, Evidence
from sparkfleet.links.model import Rail
from sparkfleet.links.netplan_fix import FILE
from sparkfleet.model import Verdict
from sparkfleet.verdicts import error


def check_expected_addresses(evidence: Evidence) -> Iterator[Verdict]:
    """Expect each netdev of `link_addresses` to have its address."""
    for host, entry in evidence.hosts.items():
        for name, address in (entry.get("link_addresses") or {}).items():
            netdev = evidence.facts[host].netdev(name)
            assigned = [str(interface) for interface in netdev.addresses] if netdev else []
            if str(address) not in assigned:
                yield error(
                    "link.expected_address",
                    host,
                    name,
                    expected=str(address),
                    seen=", ".join(assigned) or ("no address" if netdev else "no such interface"),
                    source="link_addresses, ip -j addr",
                    fix=f"correct {FILE} of this host, or link_addresses",
                )


def check_expected_cables(evidence: Evidence) -> Iterator[Verdict]:
    """Expect each cable to end where `link_cables` says: HOST:INTERFACE (swapped cages)."""
    for host, entry in evidence.hosts.items():
        for name, end in (entry.get("link_cables") or {}).items():
            peer, _, there = str(end).partition(":")
            rail = next(
                (candidate for candidate in evidence.every_rail(host) if candidate.name == name),
                None,
            )
            ends = _list_far_ends(evidence, rail) if rail else []
            if peer in evidence.hosts and f"{peer}:{there}" not in ends:
                yield error(
                    "link.expected_cable",
                    host,
                    name,
                    expected=f"a cable to {end}",
                    seen=", ".join(ends) or "no other host in its subnet",
                    source="link_cables, ip -j addr",
                    fix="plug the cable in where the inventory says, or correct link_cables; the "
                    "far end is the one that has an address in the same subnet",
                )


def _list_far_ends(evidence: Evidence, rail: Rail) -> list[str]:
    return [
        f"{peer.host}:{peer.name}"
        for host in evidence.hosts
        for peer in evidence.every_rail(host)
        if host != rail.host and peer.network is not None and peer.network == rail.network
    ]


def check_expected_rails(evidence: Evidence) -> Iterator[Verdict]:
    """Expect as many rails in use as `link_rails` says."""
    for host, entry in evidence.hosts.items():
        expected = entry.get("link_rails")
        used = evidence.fabric.rails[host]
        if expected is not None and len(used) != int(expected):
            yield error(
                "link.expected_rails",
                host,
                "rails",
                expected=f"{expected} in use",
                seen=f"{len(used)}: {', '.join(rail.name for rail in used) or 'none'}",
                source="link_rails, ip -j addr",
                fix="name them in link_interfaces, or correct link_rails",
            )


def check_expected_versions(evidence: Evidence) -> Iterator[Verdict]:
    """Expect firmware, kernel and driver to match the globs of the inventory."""
    for host, entry in evidence.hosts.items():
        facts = evidence.facts[host]
        firmware = sorted({hca.firmware for hca in evidence.fabric.hcas(host)})
        for name, actual in (
            ("link_firmware", firmware),
            ("cluster_kernel", [facts.system.kernel]),
            ("cluster_driver", [facts.driver]),
        ):
            pattern = entry.get(name)
            wrong = [
                version for version in actual if pattern and not fnmatchcase(version, str(pattern))
            ]
            if wrong:
                yield error(
                    "host.expected_version",
                    host,
                    name,
                    expected=str(pattern),
                    seen=", ".join(wrong) or "unknown",
                    source=f"{name}, facts",
                    fix="update this host by hand; sparkfleet installs and flashes nothing",
                )


CHECKS: tuple[Check, ...] = (
    check_expected_addresses,
    check_expected_cables,
    check_expected_rails,
    check_expected_versions,
)
