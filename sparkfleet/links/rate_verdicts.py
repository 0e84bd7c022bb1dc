"""What measured rates mean; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sparkfleet.links import bands
from sparkfleet.links.bands import GOOD, Band
from sparkfleet.links.expectation import cable_gbps
from sparkfleet.links.rates import Rate, Samples
from sparkfleet.links.verdicts import error, ok, verdict
from sparkfleet.model import Host, Severity, Verdict

BUSY = 0.9  # of the time a stream needed a CPU: then the CPUs bound its rate, and not the link


def judge_rates(samples: Samples, hosts: Sequence[Host]) -> tuple[Verdict, ...]:
    """Return what the rates prove, at least one verdict for each host that sent.

    A rate below the expected one refuses, unless the CPUs were busy with it: then it only shows
    what passed at least, and a warning says so.
    """
    by_name = {host.name: host for host in hosts}
    found: list[Verdict] = []
    for host, entry in by_name.items():
        sent = [rate for rate in samples.rates if rate.host == host]
        own = [x for rate in sent for x in _rate(rate, [entry, by_name[rate.peer]])]
        told = {verdict.subject for verdict in own}
        own += [x for x in _uneven(sent) if x.subject not in told]
        found += own or ([_good(host, sent)] if sent else [])
    return tuple(found)


def _rate(rate: Rate, ends: Sequence[Host]) -> Iterator[Verdict]:
    expected = cable_gbps(ends, rails=len(rate.rails))
    if rate.why:
        yield error(
            _check(rate),
            rate.host,
            _subject(rate),
            expected=f"at least {GOOD * expected:.4g} Gb/s",
            seen=rate.why.lower(),
            source=rate.tool,
            fix="nothing passed: links.verify tells whether the peer is reached at all",
        )
        return
    band = bands.band(rate.gbps, expected, bands.CABLE if len(rate.rails) > 1 else bands.RAIL)
    if band is not None:
        yield _short(rate, expected, band)


def _short(rate: Rate, expected: float, band: Band) -> Verdict:
    busy = rate.need >= BUSY
    return verdict(
        Severity.WARNING if busy else Severity.ERROR,
        _check(rate),
        rate.host,
        _subject(rate),
        expected=f"at least {GOOD * expected:.4g} Gb/s",
        seen=f"{rate.gbps:.4g} Gb/s: {'the CPUs had no time for more' if busy else band.name}",
        source=rate.tool,
        fix="repeat links.bench while both hosts are idle; RDMA needs no CPU: sudo apt-get install "
        "-y perftest"
        if busy
        else band.cause,
    )


def _uneven(sent: Sequence[Rate]) -> Iterator[Verdict]:
    """Yield rails that carry much less than the best one to the same peer."""
    alone = [rate for rate in sent if not rate.whole and not rate.why]
    best: Mapping[str, Rate] = {x.peer: x for x in sorted(alone, key=lambda x: x.gbps)}
    for rate in alone:
        twin = best[rate.peer]
        if rate.gbps < GOOD * twin.gbps and rate.need < BUSY:
            yield error(
                "link.uneven",
                rate.host,
                _subject(rate),
                expected=f"about the {twin.gbps:.4g} Gb/s that {', '.join(twin.rails)} carries",
                seen=f"{rate.gbps:.4g} Gb/s",
                source=rate.tool,
                fix="shaping (tc qdisc show), a slow switch port, packet loss or x2 PCIe lanes on "
                "this rail: compare MTU, counters and current_link_width with its twin's",
            )


def _check(rate: Rate) -> str:
    return "link.bandwidth" if rate.whole else "link.rail_bandwidth"


def _subject(rate: Rate) -> str:
    return f"{', '.join(rate.rails)} to {rate.peer}"


def _good(host: str, sent: Sequence[Rate]) -> Verdict:
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
