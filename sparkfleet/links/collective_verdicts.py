"""What a collective over all ranks means; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from sparkfleet.links import bands
from sparkfleet.links.bandwidth import bus_bandwidth
from sparkfleet.links.collective import OPERATIONS, Answer, Collective
from sparkfleet.links.evidence import Evidence
from sparkfleet.links.expectation import busbw
from sparkfleet.links.transport import judge_transport, transports
from sparkfleet.links.verdicts import error, verdict
from sparkfleet.model import Severity, Verdict

SOURCE = "torch.distributed"


def judge_answers(evidence: Evidence, said: Mapping[str, Answer]) -> Iterator[Verdict]:
    """Yield the verdicts on each rank: the transport it took, and why it failed."""
    for host, answer in said.items():
        disabled = evidence.environment(host).get("NCCL_IB_DISABLE") == "1"
        rdma = bool(evidence.fabric.hcas(host)) and not disabled
        for transport in transports(answer["log"]).values():
            found = judge_transport(host, transport, rdma=rdma)
            if found is not None:
                yield found
        if "failed" in answer:
            yield error(
                "link.collective",
                host,
                ", ".join(OPERATIONS),
                expected="a collective over all ranks",
                seen=answer["failed"],
                source=SOURCE,
                fix="the rank that failed first tells the cause; it ran with the rank's nccl.env",
            )


def judge_collective(evidence: Evidence, measured: Collective) -> Verdict:
    """Return the verdict on the bus bandwidth of the largest message.

    Only NCCL on GPUs has a figure to be compared with.
    """
    hosts = list(evidence.hosts.values())
    rows = measured.rows[OPERATIONS[0]]
    seen = bus_bandwidth(rows)
    text = f"{seen:.4g} GB/s, {max(row.size for row in rows) >> 20} MiB"
    say = partial(verdict, check="link.busbw", host=hosts[0].name, subject=OPERATIONS[0])
    if measured.backend != "nccl":
        wanted = "NCCL on GPUs, for a figure to compare with"
        text += f" by {measured.backend} on {measured.device}"
        return say(Severity.INFO, expected=wanted, seen=text, source=SOURCE)
    expected = busbw(evidence.fabric, hosts)
    band = bands.band(seen, expected, bands.COLLECTIVE)
    return say(
        Severity.OK if band is None else Severity.ERROR,
        expected=f"at least {bands.GOOD * expected:.4g} GB/s",
        seen=f"{text}: {band.name}" if band else text,
        source=f"{SOURCE}, NCCL {measured.nccl}",
        fix=band.cause if band else "",
    )
