"""Whether the ranks of vLLM's own executor (mp) find each other; pure.

What `join` is for Ray. Each rank goes to the head's master port and says so, waits there for all
others, and is then told its rank in the group: two lines in the log of each host.
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
    """Where the ranks of vLLM's own executor are: none joins before all have come to the head.

    `came` is when each host's rank went to the head, in seconds of one clock, `joined` whose rank
    was told its place in the group. `limit` is in seconds.
    """

    hosts: tuple[str, ...]
    limit: float
    arrived: dict[str, float] = field(default_factory=dict)
    joined: set[str] = field(default_factory=set)

    def feed(self, host: str, line: str, now: float) -> None:
        """Take a line of the log of `host`."""
        text = milestones.parse_log_line(line).text
        if CAME.match(text):
            self.arrived.setdefault(host, now)
        elif JOINED.match(text):
            self.joined.add(host)

    def find_problem(self, host: str, now: float) -> str:
        """Return what is wrong with `host` by now, "" if nothing is.

        One that did not come is late by the first that did; those that came and did not join are
        late by the last.
        """
        if host in self.joined or not self.arrived:
            return ""
        if host not in self.arrived and now - min(self.arrived.values()) > self.limit:
            first = min(self.arrived, key=lambda name: self.arrived[name])
            return f"its rank did not come to the head within {self.limit:.0f} s of {first}'s"
        everybody = set(self.arrived) == set(self.hosts)
        if everybody and now - max(self.arrived.values()) > self.limit:
            return f"all ranks came to the head, and formed no group within {self.limit:.0f} s"
        return ""
