"""Error counters of HCAs that rise: a fabric that loses packets; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sparkfleet.facts import HostFacts
from sparkfleet.model import Verdict
from sparkfleet.verdicts import warning

ERRORS = {
    "packet_seq_err",
    "out_of_sequence",
    "roce_adp_retrans",
    "req_transport_retries_exceeded",
    "local_ack_timeout_err",
    "port_rcv_errors",
    "symbol_error",
    "link_downed",
}


def diff_counters(before: HostFacts, after: HostFacts) -> Mapping[str, Mapping[str, int]]:
    """Return by how much the counters of each HCA rose between two readings of a host."""
    was = {hca.name: hca.counters for hca in before.hcas}
    return {
        hca.name: {
            name: now - was[hca.name][name]
            for name, now in hca.counters.items()
            if now > was[hca.name].get(name, now)
        }
        for hca in after.hcas
        if hca.name in was
    }


def judge_counters(host: str, increased: Mapping[str, Mapping[str, int]]) -> Iterator[Verdict]:
    """Yield a warning for each HCA whose error counters rose while its links were in use."""
    for hca, counters in increased.items():
        bad = {name: by for name, by in counters.items() if name in ERRORS}
        if bad:
            yield warning(
                "rdma.counters",
                host,
                hca,
                expected="no error counter that rises while the links are checked",
                seen=", ".join(f"{name} +{by}" for name, by in sorted(bad.items())),
                source=f"/sys/class/infiniband/{hca}/ports/1",
                fix="the fabric loses packets: check cable, MTU, speed and the switch",
            )
