"""NCCL variables name what each host has, take effect, and agree between ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sparkfleet.links import hca_filter
from sparkfleet.links.checks.interface_names import parse_ipv4
from sparkfleet.links.checks.variable_places import format_removal
from sparkfleet.links.evidence import Check, Evidence
from sparkfleet.links.nccl_environment import PER_HOST
from sparkfleet.model import Severity, Verdict
from sparkfleet.verdicts import build_verdict, error, warning

PLACEHOLDER = re.compile(r"<[^<>]*>|\b(roce|en)[A-Za-z0-9]*[XYZ]")  # rocepXsYfZ


def check_placeholders(evidence: Evidence) -> Iterator[Verdict]:
    """Refuse example text that was left in a value."""
    for host in evidence.hosts:
        for name, value in evidence.environment(host).items():
            if value and PLACEHOLDER.search(value):
                yield error(
                    "env.placeholder",
                    host,
                    name,
                    expected="a name of this host",
                    seen=value,
                    source="nccl_env, vllm_env",
                    fix=f"{format_removal(evidence.hosts[host], name)}, or fill it in: names are "
                    "computed from the host's facts",
                )


def check_hca_variable(evidence: Evidence) -> Iterator[Verdict]:
    """Expect members of NCCL_IB_HCA to exist and be on a fabric rail."""
    for host in evidence.hosts:
        value = evidence.environment(host).get("NCCL_IB_HCA")
        if value is None:
            continue
        selection = hca_filter.parse_hca_filter(value)
        every = evidence.facts[host].hcas
        for member in selection.members:
            if not selection.exclude and not selection.matching(member, every):
                yield _report_hca(evidence, host, member[0], "no such RDMA device on this host")
        used = {hca.name for hca in evidence.fabric.hcas(host)}
        chosen = {hca.name for hca in selection.selected(every)}
        for name in sorted(chosen - used):
            yield _report_hca(
                evidence, host, name, "a port that is not in the fabric of this cluster"
            )
        if chosen and chosen < used and not evidence.named_interfaces(host):
            yield _report_one_rail(host, value, used)
        if not chosen:
            yield _report_hca(evidence, host, value, "a filter that selects nothing")


def _report_hca(evidence: Evidence, host: str, name: str, problem: str) -> Verdict:
    fits = ",".join(hca.name for hca in evidence.fabric.hcas(host))
    return error(
        "env.hca",
        host,
        f"NCCL_IB_HCA: {name}",
        expected=f"{fits or 'an RDMA device'}: the devices of the rails in use",
        seen=problem,
        source="nccl_env, vllm_env, /sys/class/infiniband",
        fix=format_removal(evidence.hosts[host], "NCCL_IB_HCA")
        or "the computed value is wrong: name the rails of this host in link_interfaces",
    )


def _report_one_rail(host: str, value: str, used: set[str]) -> Verdict:
    return warning(
        "env.hca",
        host,
        "NCCL_IB_HCA",
        expected=f"{','.join(sorted(used))}: both rails of the cage",
        seen=value,
        source="nccl_env, vllm_env",
        fix="one rail carries about half (98 instead of 161 Gb/s); if intended, name the "
        "interface in link_interfaces",
    )


def check_host_ip(evidence: Evidence) -> Iterator[Verdict]:
    """Expect VLLM_HOST_IP to be an address of that host, and no loopback."""
    for host in evidence.hosts:
        value = evidence.environment(host).get("VLLM_HOST_IP")
        facts = evidence.facts[host]
        address = parse_ipv4(value or "")
        if address and not address.is_loopback and facts.carrier_of(address):
            continue
        if evidence.fabric.rails[host]:
            yield error(
                "env.host_ip",
                host,
                "VLLM_HOST_IP",
                expected="an address of this host that every peer reaches",
                seen=value or "no value",
                source="nccl_env, vllm_env, ip -j addr",
                fix=f"{format_removal(evidence.hosts[host], 'VLLM_HOST_IP')}: the fabric address "
                "is used then",
            )


def check_ineffective_values(evidence: Evidence) -> Iterator[Verdict]:
    """Warn of values that do nothing, or not what they seem to."""
    for host in evidence.hosts:
        variables = evidence.environment(host)
        for name, value in variables.items():
            if value == "":
                yield warning(
                    "env.empty",
                    host,
                    name,
                    expected="a value, or null",
                    seen="an empty text, which is not unset",
                    source="nccl_env, vllm_env",
                    fix=f"{format_removal(evidence.hosts[host], name)}, or set it to null there: "
                    "null unsets it",
                )
        if variables.get("NCCL_IB_DISABLE") == "1":
            yield warning(
                "env.disabled",
                host,
                "NCCL_IB_DISABLE",
                expected="RDMA in use",
                seen="1: NCCL falls back to TCP, and NCCL_IB_* variables do nothing",
                source="nccl_env, vllm_env",
                fix=format_removal(evidence.hosts[host], "NCCL_IB_DISABLE"),
            )


def check_rank_differences(evidence: Evidence) -> Iterator[Verdict]:
    """Warn of variables that differ between ranks without being per host."""
    head, *rest = evidence.hosts
    reference = evidence.environment(head)
    for host in rest:
        variables = evidence.environment(host)
        for name in sorted(variables.keys() | reference.keys()):
            if name not in PER_HOST and variables.get(name) != reference.get(name):
                yield warning(
                    "env.ranks",
                    host,
                    name,
                    expected=f"{reference.get(name) or 'no value'}, as on {head}",
                    seen=variables.get(name) or "no value",
                    source="nccl_env, vllm_env",
                    fix=f"set {name} for the group, not for one host",
                )


def check_inherited_variables(evidence: Evidence) -> Iterator[Verdict]:
    """Report files and logins that set NCCL variables outside the inventory.

    Where the inventory sets the variable too, its value wins, and there is nothing to do.
    """
    for host in evidence.hosts:
        facts = evidence.facts[host]
        rendered = evidence.environment(host)
        for source, given in (
            ("/etc/nccl.conf, ~/.nccl.conf", facts.nccl_conf),
            ("environment of the login", facts.environment),
        ):
            for name, value in given.items():
                wins = rendered.get(name)
                if wins != value:
                    yield build_verdict(
                        Severity.INFO if wins else Severity.WARNING,
                        "env.inherited",
                        host,
                        name,
                        expected=f"{wins}, as rendered" if wins else "no value",
                        seen=value,
                        source=source,
                        fix="the rendered value wins"
                        if wins
                        else "remove it there, or set it in nccl_env",
                    )


CHECKS: tuple[Check, ...] = (
    check_placeholders,
    check_hca_variable,
    check_host_ip,
    check_ineffective_values,
    check_rank_differences,
    check_inherited_variables,
)
