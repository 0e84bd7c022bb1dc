"""Socket variables: the interfaces at which ranks meet."""

from __future__ import annotations

from collections.abc import Iterator

from sparkfleet.facts.network import Netdev
from sparkfleet.links.checks.interface_names import (
    NCCL,
    explain_no_link,
    match_netdevs,
    parse_interface_names,
)
from sparkfleet.links.checks.variable_places import format_removal
from sparkfleet.links.evidence import Check, Evidence
from sparkfleet.links.nccl_environment import SOCKETS
from sparkfleet.model import Host, Verdict
from sparkfleet.verdicts import error, info


def check_socket_variables(evidence: Evidence) -> Iterator[Verdict]:
    """Expect them to name interfaces over which the host meets all others."""
    for host in evidence.hosts:
        variables = evidence.environment(host)
        for name in SOCKETS:
            value = variables.get(name) or ""
            for word in parse_interface_names(name, value):
                meant = match_netdevs(evidence.facts[host], name, word, exact=value.startswith("="))
                reasons = [_explain_unfit(evidence, host, netdev) for netdev in meant]
                if all(reasons):
                    yield _report_socket(
                        evidence.hosts[host], name, f"{word}: {(*reasons, 'no such interface')[0]}"
                    )


def _report_socket(host: Host, name: str, problem: str) -> Verdict:
    removal = format_removal(host, name)
    return error(
        "env.socket",
        host.name,
        name,
        expected="a wired interface of this host, in a subnet of all the others",
        seen=problem,
        source="nccl_env, vllm_env, /sys/class/net, ip -j addr",
        fix=f"{removal}: the interface of VLLM_HOST_IP is used then"
        if removal
        else "give the hosts a subnet in common, and name its interfaces in link_interfaces",
    )


def _explain_unfit(evidence: Evidence, host: str, netdev: Netdev) -> str:
    """Return why the rank of `host` cannot meet others over `netdev`; "" where it can."""
    if netdev.wireless or netdev.loopback:
        return "Wi-Fi or loopback"
    meets = evidence.fabric.rendezvous(host)
    problem = explain_no_link(netdev)
    if problem and not (meets and meets.name == netdev.name):  # link.down has its cause
        return problem
    for peer in evidence.hosts:
        if peer != host and not _shares_subnet(evidence, peer, netdev):
            return f"{peer} has no address of its own in the subnet of {netdev.addresses[0]}"
    return ""


def _shares_subnet(evidence: Evidence, peer: str, netdev: Netdev) -> bool:
    """Return whether `peer` is in a subnet of `netdev`, at an address of its own."""
    return any(
        interface.network == mine.network
        and interface.ip != mine.ip  # docker0 is the same everywhere
        for dev in evidence.facts[peer].netdevs
        for interface in dev.addresses
        for mine in netdev.addresses
    )


def check_bootstrap(evidence: Evidence) -> Iterator[Verdict]:
    """Note a NCCL_SOCKET_IFNAME off the fabric: it only decides where ranks meet."""
    for host in evidence.hosts:
        meets = evidence.fabric.rendezvous(host)
        value = evidence.environment(host).get(NCCL) or ""
        if (
            meets
            and value != meets.name
            and all(map(evidence.facts[host].netdev, parse_interface_names(NCCL, value)))
        ):
            yield info(
                "env.bootstrap",
                host,
                "NCCL_SOCKET_IFNAME",
                expected=f"{meets.name}, the interface of VLLM_HOST_IP",
                seen=value or "no value",
                source="nccl_env, vllm_env",
                fix="it only sets the bootstrap; data goes over NCCL_IB_HCA",
            )


CHECKS: tuple[Check, ...] = (check_socket_variables, check_bootstrap)
