"""Check that the ranks of the mp executor find each other; pure.

Each rank connects to the head's master port and waits there for all others, then gets its rank in
the group. The log of each host has one line for each of the two steps.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from sparkfleet.vllm import milestones

# parallel_state.py of vLLM 0.20 and 0.32
CAME = re.compile(r"^world_size=\d+ rank=\d+ .*distributed_init_method=tcp://")
JOINED = re.compile(r"^rank \d+ in world size \d+ is assigned ")


@dataclass(slots=True, kw_only=True)
class Rendezvous:
    """Progress of the rendezvous: no rank joins before all have connected to the head.

    `arrived` is the time in seconds when each host's rank connected to the head, `joined` the hosts
    whose rank has its place in the group. `limit` is in seconds.
    """

    hosts: tuple[str, ...]
    limit: float
    arrived: dict[str, float] = field(default_factory=dict)
    joined: set[str] = field(default_factory=set)

    def feed(self, host: str, line: str, now: float) -> None:
        """Process a line of the log of `host`."""
        text = milestones.parse_log_line(line).text
        if CAME.match(text):
            self.arrived.setdefault(host, now)
        elif JOINED.match(text):
            self.joined.add(host)

    def find_problem(self, host: str, now: float) -> str:
        """Return the problem of `host` at time `now`, "" if there is none.

        The limit for connecting counts from the first rank that connected, the limit for joining
        from the last.
        """
        if host in self.joined or not self.arrived:
            return ""
        if host not in self.arrived and now - min(self.arrived.values()) > self.limit:
            first = min(self.arrived, key=lambda name: self.arrived[name])
            return (
                f"rank did not connect to the head within {self.limit:.0f} s of the rank on {first}"
            )
        everybody = set(self.arrived) == set(self.hosts)
        if everybody and now - max(self.arrived.values()) > self.limit:
            return (
                f"all ranks connected, but the NCCL group was not formed within {self.limit:.0f} s"
            )
        return ""
