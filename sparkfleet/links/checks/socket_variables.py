"""Socket variables: the interfaces at which ranks meet."""

from __future__ import annotations

from collections.abc import Iterator

from sparkfleet.facts.network import Netdev
from sparkfleet.links.evidence import Check, Evidence
from sparkfleet.model import Verdict
from sparkfleet.verdicts import error, info

SOCKETS = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")


def check_socket_variables(evidence: Evidence) -> Iterator[Verdict]:
    """Expect them to name interfaces over which the host meets all others."""
    for host in evidence.hosts:
        variables = evidence.environment(host)
        for name in SOCKETS:
            value = variables.get(name) or ""
            prefix = name == "NCCL_SOCKET_IFNAME" and not value.startswith("=")
            for word in _parse_interface_names(value):
                meant = _match_netdevs(evidence, host, word, prefix=prefix)
                reasons = [_explain_unfit(evidence, host, netdev) for netdev in meant]
                if all(reasons):
                    yield _report_socket(
                        host, name, f"{word}: {(*reasons, 'no such interface')[0]}"
                    )


def _report_socket(host: str, name: str, problem: str) -> Verdict:
    return error(
        "env.socket",
        host,
        name,
        expected="a wired interface of this host, in a subnet of all the others",
        seen=problem,
        source="nccl_env, vllm_env, /sys/class/net, ip -j addr",
        fix=f"remove {name} from nccl_env and vllm_env: the interface of VLLM_HOST_IP is used then",
    )


def _match_netdevs(evidence: Evidence, host: str, word: str, *, prefix: bool) -> tuple[Netdev, ...]:
    """Return the interfaces that `word` names; NCCL also takes it for the start of a name."""
    netdevs = evidence.facts[host].netdevs
    exact = tuple(netdev for netdev in netdevs if netdev.name == word)
    return exact or tuple(
        candidate for candidate in netdevs if prefix and candidate.name.startswith(word)
    )


def _explain_unfit(evidence: Evidence, host: str, netdev: Netdev) -> str:
    """Return why the rank of `host` cannot meet others over `netdev`; "" where it can."""
    if netdev.wireless or netdev.loopback:
        return "Wi-Fi or loopback"
    if not netdev.addresses:
        return "it has no IPv4 address"
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


def _parse_interface_names(value: str) -> tuple[str, ...]:
    if value.startswith("^"):
        return ()
    return tuple(word.strip() for word in value.removeprefix("=").split(",") if word.strip())


def check_bootstrap(evidence: Evidence) -> Iterator[Verdict]:
    """Note a NCCL_SOCKET_IFNAME off the fabric: it only decides where ranks meet."""
    for host in evidence.hosts:
        meets = evidence.fabric.rendezvous(host)
        value = evidence.environment(host).get("NCCL_SOCKET_IFNAME") or ""
        if (
            meets
            and value != meets.name
            and all(map(evidence.facts[host].netdev, _parse_interface_names(value)))
        ):
            yield info(
                "env.bootstrap",
                host,
                "NCCL_SOCKET_IFNAME",
                expected=f"{meets.name}, the interface of VLLM_HOST_IP",
                seen=value or "unset",
                source="nccl_env, vllm_env",
                fix="it only sets the bootstrap; data goes over NCCL_IB_HCA",
            )


CHECKS: tuple[Check, ...] = (check_socket_variables, check_bootstrap)
