"""Socket variables of one host: the interfaces that they name, and whether those have a link."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from ipaddress import AddressValueError, IPv4Address
from typing import Any

from sparkfleet.facts import HostFacts
from sparkfleet.facts.network import Netdev
from sparkfleet.links.nccl_environment import SOCKETS
from sparkfleet.model import Verdict
from sparkfleet.verdicts import error

NCCL = "NCCL_SOCKET_IFNAME"
UCX = "UCX_NET_DEVICES"
HOST_IP = "VLLM_HOST_IP"
# Names of RDMA devices: prefixes that rdma-core gives, of drivers and of software devices
# (linux-rdma/rdma-core, kernel-boot/rdma_rename.c).
RDMA_NAME = re.compile(r"(?:roce|ib|iw|opa|usnic)[a-z0-9]*[0-9]|(?:mlx[45]_|rxe|siw)[0-9]+")


def check_interface_names(
    facts: HostFacts, variables: Mapping[str, Any], sources: Mapping[str, str]
) -> Iterator[Verdict]:
    """Refuse variables that name an interface or address that this host cannot use, also in solo.

    `sources` has where each variable was set.
    """
    for name in SOCKETS:
        value = variables.get(name)
        text = value if isinstance(value, str) else ""
        for word in parse_interface_names(name, text):
            netdevs = match_netdevs(facts, name, word, exact=text.startswith("="))
            reasons = ["" if dev.loopback else explain_no_link(dev) for dev in netdevs]
            if all(reasons) and (netdevs or not _may_be_unread_device(facts, name, word)):
                seen = f"{word}: {(*reasons, 'no such interface')[0]}"
                yield _report_interface(facts, name, seen, sources.get(name, "vllm_env"))
    value = variables.get(HOST_IP)
    address = parse_ipv4(value) if isinstance(value, str) else None
    if address and not address.is_loopback and facts.carrier_of(address) is None:
        yield _report_host_ip(facts, address, sources.get(HOST_IP, "vllm_env"))


def parse_interface_names(name: str, value: str) -> tuple[str, ...]:
    """Return the names in a value of variable `name`; none where it excludes or takes all."""
    if value.startswith("^") or (name == UCX and value == "all"):
        return ()
    words = (word.strip() for word in value.removeprefix("=").split(","))
    if name == UCX:  # DEVICE:PORT, where a device is a netdev or an HCA
        words = (word.partition(":")[0] for word in words)
    return tuple(word for word in words if word)


def match_netdevs(facts: HostFacts, name: str, word: str, *, exact: bool) -> tuple[Netdev, ...]:
    """Return the interfaces that `word` names; NCCL also takes it for the start of a name."""
    names = {word}
    if name == UCX:
        names |= {hca.netdev for hca in facts.hcas if hca.netdev and hca.name == word}
    named = tuple(netdev for netdev in facts.netdevs if netdev.name in names)
    if named or exact or name != NCCL:
        return named
    return tuple(netdev for netdev in facts.netdevs if netdev.name.startswith(word))


def explain_no_link(netdev: Netdev) -> str:
    """Return why nothing can be sent over `netdev`; "" where it can."""
    if not netdev.addresses:
        return "it has no IPv4 address"
    if not netdev.admin_up:
        return "it has an address but is down"
    return "" if netdev.carrier else "it has an address but no carrier"


def _may_be_unread_device(facts: HostFacts, name: str, word: str) -> bool:
    """Return whether `word` may name an HCA: a solo start does not read those."""
    return name == UCX and not facts.fabric and bool(RDMA_NAME.fullmatch(word.lower()))


def _report_interface(facts: HostFacts, name: str, problem: str, source: str) -> Verdict:
    fitting = [
        netdev.name
        for netdev in facts.netdevs
        if not netdev.loopback and not explain_no_link(netdev)
    ]
    return error(
        "env.socket",
        facts.host,
        name,
        expected="an interface of this host that is up, with a carrier and an IPv4 address: "
        + (", ".join(fitting) or "there is none"),
        seen=problem,
        source=f"{source}, /sys/class/net, ip -j addr",
        fix=f"remove {name} from {source}, or set it for this host",
    )


def _report_host_ip(facts: HostFacts, address: IPv4Address, source: str) -> Verdict:
    return error(
        "env.host_ip",
        facts.host,
        HOST_IP,
        expected="an address of this host",
        seen=f"{address}, which no interface has",
        source=f"{source}, ip -j addr",
        fix=f"remove {HOST_IP} from {source}, or set it for this host",
    )


def parse_ipv4(text: str) -> IPv4Address | None:
    """Return the address that `text` is, or None."""
    try:
        return IPv4Address(text)
    except AddressValueError:
        return None
