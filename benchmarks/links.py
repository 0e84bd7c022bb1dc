"""Times the links gate on lab hosts: facts, static and active checks, and a moment of measuring.

``sudo python benchmarks/links.py [--hosts 2,8,32]``. Boots a lab of its own for each size, so none
may run. Prints seconds and the channels that a host took; the static gate over 32 hosts has to end
in under 5 s on 2 cores.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from sparkfleet import facts, links
from sparkfleet.commands import Command
from sparkfleet.inventory.clusters import choose_cluster
from sparkfleet.inventory.loading import load_inventory
from sparkfleet.lab import fleet
from sparkfleet.model import Host
from sparkfleet.remote.channel import Channel
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import ConnectionPool
from sparkfleet.remote.ssh import connect_ssh

TARGET = 5.0  # seconds for facts and static checks of the largest fleet
HEADINGS = ("hosts", "facts", "static", "active", "rates", "Gb/s", "channels")

T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Return how long `work` took, seconds, and what it gave."""
    began = time.perf_counter()
    given = work()
    return time.perf_counter() - began, given


class Counting:
    """Opens links, and counts the channels that are opened on each."""

    def __init__(self) -> None:
        self.channels: Counter[str] = Counter()

    def connect(self, host: Host) -> Connection:
        """Return a link to `host` that counts."""
        link = connect_ssh(host)
        start = link._start

        def count(command: Command) -> Channel:
            self.channels[host.name] += 1
            return start(command)

        link._start = count  # type: ignore[method-assign]  # to count the calls
        return link


def measure(count: int) -> float:
    """Run the gate over `count` hosts, print its row, and return facts and static seconds."""
    lab = fleet.start_fleet(count, cables="crossed" if count == 2 else "switch")
    hosts = choose_cluster(load_inventory([str(lab.inventory)])).hosts
    counting = Counting()
    with ConnectionPool(counting.connect) as pool:
        gathering, seen = timed(lambda: pool.map(facts.gather_facts, hosts).all())
        fabric = links.select_fabric(seen, hosts)
        checking, verdicts = timed(lambda: links.run_static_gate(fabric, seen, hosts))
        probing, more = timed(lambda: links.run_active_gate(pool, fabric, hosts))
        sampling, samples = timed(lambda: links.sample_rates(pool, fabric, hosts))
    assert not any(verdict.refuses for verdict in (*verdicts, *more))
    slowest = min(rate.gbps for rate in samples.rates)
    times = "".join(f" {x:>7.2f}s" for x in (gathering, checking, probing, sampling))
    print(f"{count:>5}{times} {slowest:>6.1f} {max(counting.channels.values()):>8}")
    return gathering + checking


def main() -> int:
    """Measure each size, and return 1 where the largest misses the target."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hosts", default="2,8,32")
    sizes = [int(size) for size in parser.parse_args().hosts.split(",")]
    print("{:>5} {:>8} {:>8} {:>8} {:>8} {:>6} {:>8}".format(*HEADINGS))
    try:
        took = [measure(size) for size in sizes]
    finally:
        fleet.remove_fleet()
    return 1 if took[-1] > TARGET else 0


if __name__ == "__main__":
    sys.exit(main())
