"""Verdicts on a collective over all ranks; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sparkfleet.links.bandwidth import rate_bands
from sparkfleet.links.bandwidth.collective import OPERATIONS, Collective, RankAnswer
from sparkfleet.links.bandwidth.expectation import estimate_busbw
from sparkfleet.links.bandwidth.nccl_transport import judge_transport, parse_transports
from sparkfleet.links.bandwidth.perftest import select_bus_bandwidth
from sparkfleet.links.evidence import Evidence
from sparkfleet.model import Severity, Verdict
from sparkfleet.verdicts import build_verdict, error, info

SOURCE = "torch.distributed"


def judge_answers(evidence: Evidence, answers: Mapping[str, RankAnswer]) -> Iterator[Verdict]:
    """Yield the verdicts on each rank: the transport it took, and why it failed."""
    for host, answer in answers.items():
        rdma = _expects_rdma(evidence, host)
        for transport in parse_transports(answer.log).values():
            outcome = judge_transport(host, transport, rdma=rdma)
            if outcome is not None:
                yield outcome
        if answer.missing:
            yield info(
                "link.collective",
                host,
                ", ".join(OPERATIONS),
                expected="an engine whose Python has torch",
                seen=answer.missing,
                source=SOURCE,
                fix="install torch in the engine, or judge by the rates of the links",
            )
        elif answer.failed:
            yield error(
                "link.collective",
                host,
                ", ".join(OPERATIONS),
                expected="a collective over all ranks",
                seen=answer.failed,
                source=SOURCE,
                fix="look for the cause at the rank that failed first; each ran with its nccl.env",
            )


def _expects_rdma(evidence: Evidence, host: str) -> bool:
    environment = evidence.environment(host)
    disabled = environment.get("NCCL_IB_DISABLE") == "1" or environment.get("NCCL_NET") == "Socket"
    return bool(evidence.fabric.hcas(host)) and not disabled


def judge_collective(
    evidence: Evidence, measured: Collective, cable_gbps: float | None = None
) -> Verdict:
    """Return the verdict on the bus bandwidth of the largest message.

    Only NCCL on GPUs has a figure to be compared with. `cable_gbps` is what the slowest cable
    carried without NCCL, Gb/s: where that is good, the cause is not the wire. Without RDMA a low
    bandwidth is what the user has chosen: a warning.
    """
    hosts = list(evidence.hosts.values())
    rows = measured.rows[OPERATIONS[0]]
    bandwidth = select_bus_bandwidth(rows)
    text = f"{bandwidth:.4g} GB/s, {max(row.size for row in rows) >> 20} MiB"
    about = ("link.busbw", hosts[0].name, OPERATIONS[0])
    if measured.backend != "nccl":
        return info(
            *about,
            expected="NCCL on GPUs, for a figure to compare with",
            seen=f"{text} by {measured.backend} on {measured.device}",
            source=SOURCE,
        )
    expected = estimate_busbw(evidence.fabric, hosts)
    band = rate_bands.find_band(bandwidth, expected, rate_bands.COLLECTIVE)
    fast = cable_gbps is not None and cable_gbps >= rate_bands.GOOD * expected * 8
    severity = Severity.OK if band is None else Severity.ERROR
    if band is None:
        seen, fix = text, ""
    elif not all(_expects_rdma(evidence, host.name) for host in hosts):
        severity = Severity.WARNING
        seen, fix = f"{text}, without RDMA", rate_bands.NO_RDMA
    elif fast:
        seen = f"{text}; the cable carried {cable_gbps:.4g} Gb/s without NCCL"
        fix = rate_bands.NCCL_BELOW_WIRE
    else:
        seen, fix = f"{text}: {band.name}", band.cause
    return build_verdict(
        severity,
        *about,
        expected=f"at least {rate_bands.GOOD * expected:.4g} GB/s",
        seen=seen,
        source=f"{SOURCE}, NCCL {measured.nccl}",
        fix=fix,
    )
