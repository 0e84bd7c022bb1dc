"""Verdicts on measured rates; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sparkfleet.links.bandwidth import rate_bands
from sparkfleet.links.bandwidth.expectation import estimate_cable_gbps
from sparkfleet.links.bandwidth.rate_bands import GOOD
from sparkfleet.links.bandwidth.rates import MeasuredRate, Samples
from sparkfleet.model import Host, Verdict
from sparkfleet.verdicts import error, ok, warning

BUSY = 0.9  # of the time a stream needed a CPU: then the CPUs bound its rate, and not the link
CROWDED = 0.3  # the same where a host had no CPU to spare: the kernel's own part does not show then
NO_IDLE = 0.05  # of the CPUs' time


def judge_rates(samples: Samples, hosts: Sequence[Host]) -> tuple[Verdict, ...]:
    """Return what the rates prove, at least one verdict for each host that sent.

    A rate below the expected one refuses, unless the CPUs were the limit: then it only shows what
    passed at least, and one warning says so of all such ways of a host.
    """
    by_name = {host.name: host for host in hosts}
    verdicts: list[Verdict] = []
    for host, entry in by_name.items():
        sent = [rate for rate in samples.rates if rate.host == host]
        short = [
            candidate
            for candidate in sent
            if _estimate_way_gbps(candidate, entry, by_name) > candidate.gbps / GOOD
        ]
        slow = [rate for rate in short if rate.why or not _is_cpu_bound(rate)]
        host_verdicts = [
            _report_slow(rate, _estimate_way_gbps(rate, entry, by_name)) for rate in slow
        ]
        host_verdicts += _report_uneven([rate for rate in sent if rate not in slow])
        host_verdicts += _report_cpu_bound([rate for rate in short if rate not in slow])
        verdicts += host_verdicts or ([_report_good(host, sent)] if sent else [])
    return tuple(verdicts)


def _estimate_way_gbps(rate: MeasuredRate, host: Host, hosts: Mapping[str, Host]) -> float:
    """Return what a way carries, or the equal part of one of the rails that were sharing it."""
    rails = len(rate.rails) * rate.sharing
    return estimate_cable_gbps([host, hosts[rate.peer]], rails=rails) / rate.sharing


def _is_cpu_bound(rate: MeasuredRate) -> bool:
    """Return whether the CPUs were the limit, so that the link may carry more."""
    return rate.need >= (CROWDED if rate.idle < NO_IDLE else BUSY)


def _report_slow(rate: MeasuredRate, expected: float) -> Verdict:
    band = rate_bands.find_band(
        rate.gbps, expected, rate_bands.CABLE if len(rate.rails) > 1 else rate_bands.RAIL
    )
    name, cause = (band.name, band.cause) if band else ("", "")
    return error(
        "link.bandwidth" if rate.whole else "link.rail_bandwidth",
        rate.host,
        _format_rate_subject(rate),
        expected=f"at least {GOOD * expected:.4g} Gb/s",
        seen=rate.why.lower() or f"{rate.gbps:.4g} Gb/s: {name}",
        source=rate.tool,
        fix=f"nothing passed: ping -I {rate.rails[0]} the peer, then {{task:links.verify}}"
        if rate.why
        else cause,
    )


def _report_cpu_bound(rates: Sequence[MeasuredRate]) -> Iterator[Verdict]:
    if rates:
        least = min(rate.gbps for rate in rates)
        yield warning(
            "link.bandwidth",
            rates[0].host,
            f"{len(rates)} {'way' if len(rates) == 1 else 'ways'} to "
            f"{', '.join(dict.fromkeys(rate.peer for rate in rates))}",
            expected=f"{GOOD:.0%} of the expected rate",
            seen=f"{least:.4g} Gb/s and more: the CPUs had no time for the rest",
            source=rates[0].tool,
            fix="repeat {task:links.bench} while the hosts are idle; RDMA needs no CPU: "
            "sudo apt-get install -y perftest",
        )


def _report_uneven(sent: Sequence[MeasuredRate]) -> Iterator[Verdict]:
    """Yield rails that carry much less than the best one to the same peer."""
    alone = [rate for rate in sent if not rate.whole and not rate.why]
    best: Mapping[str, MeasuredRate] = {
        candidate.peer: candidate
        for candidate in sorted(alone, key=lambda candidate: candidate.gbps)
    }
    for rate in alone:
        twin = best[rate.peer]
        if rate.gbps < GOOD * twin.gbps and not _is_cpu_bound(rate):
            yield error(
                "link.uneven",
                rate.host,
                _format_rate_subject(rate),
                expected=f"about the {twin.gbps:.4g} Gb/s that {', '.join(twin.rails)} carries",
                seen=f"{rate.gbps:.4g} Gb/s",
                source=rate.tool,
                fix="shaping (tc qdisc show), a slow switch port, packet loss or x2 PCIe lanes on "
                "this rail: compare MTU, counters and current_link_width with its twin's",
            )


def _format_rate_subject(rate: MeasuredRate) -> str:
    return f"{', '.join(rate.rails)} to {rate.peer}"


def _report_good(host: str, sent: Sequence[MeasuredRate]) -> Verdict:
    peers = ", ".join(dict.fromkeys(rate.peer for rate in sent))
    slowest = min((rate for rate in sent if rate.whole), key=lambda rate: rate.gbps)
    return ok(
        "link.bandwidth",
        host,
        "fabric",
        expected=f"{GOOD:.0%} of the expected rate on every way",
        seen=f"{slowest.gbps:.4g} Gb/s and more over a cable to {peers}",
        source=slowest.tool,
    )
