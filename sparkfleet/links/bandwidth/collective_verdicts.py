"""Verdicts on a collective over all ranks; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sparkfleet.links.bandwidth import rate_bands
from sparkfleet.links.bandwidth.collective import OPERATIONS, Answer, Collective
from sparkfleet.links.bandwidth.expectation import estimate_busbw
from sparkfleet.links.bandwidth.nccl_transport import judge_transport, parse_transports
from sparkfleet.links.bandwidth.perftest import select_bus_bandwidth
from sparkfleet.links.evidence import Evidence
from sparkfleet.model import Severity, Verdict
from sparkfleet.verdicts import build_verdict, error, info

SOURCE = "torch.distributed"


def judge_answers(evidence: Evidence, answers: Mapping[str, Answer]) -> Iterator[Verdict]:
    """Yield the verdicts on each rank: the transport it took, and why it failed."""
    for host, answer in answers.items():
        disabled = evidence.environment(host).get("NCCL_IB_DISABLE") == "1"
        rdma = bool(evidence.fabric.hcas(host)) and not disabled
        for transport in parse_transports(answer["log"]).values():
            outcome = judge_transport(host, transport, rdma=rdma)
            if outcome is not None:
                yield outcome
        if "failed" in answer:
            yield error(
                "link.collective",
                host,
                ", ".join(OPERATIONS),
                expected="a collective over all ranks",
                seen=answer["failed"],
                source=SOURCE,
                fix="look for the cause at the rank that failed first; each ran with its nccl.env",
            )


def judge_collective(evidence: Evidence, measured: Collective) -> Verdict:
    """Return the verdict on the bus bandwidth of the largest message.

    Only NCCL on GPUs has a figure to be compared with.
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
    return build_verdict(
        Severity.OK if band is None else Severity.ERROR,
        *about,
        expected=f"at least {rate_bands.GOOD * expected:.4g} GB/s",
        seen=f"{text}: {band.name}" if band else text,
        source=f"{SOURCE}, NCCL {measured.nccl}",
        fix=band.cause if band else "",
    )
