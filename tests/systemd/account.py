"""A user of the machine with systemd, who types commands of sparkfleet in logins."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.commandline import within
from tests.systemd.machine import SystemdMachine
from tests.systemd.serving import INVENTORY, SERVICE

LATE = 150.0  # seconds until a state that is awaited counts as one that never comes
KILL = "pkill -9 -f '[b]in/vllm serve'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A user, and the `systemctl` of the manager that has its service."""

    machine: SystemdMachine
    user: str
    systemctl: str = "systemctl"

    def shell(self, script: str, *, code: int | None = 0) -> str:
        """Run a script in a login; raises AssertionError where it ends with another code."""
        done = self.machine.run(self.user, script)
        assert code in (None, done.code), f"{script}: {done.code}\n{done.output}"
        return done.output

    def type(self, task: str, *words: str, code: int | None = 0) -> str:
        """Run a task of sparkfleet in the home."""
        line = " ".join(("sparkfleet", task, *words, "--inventory", INVENTORY))
        return self.shell(line, code=code)

    def ask(self, name: str) -> str:
        """Return a property of the service."""
        return self.shell(f"{self.systemctl} show -P {name} {SERVICE}").strip()

    def list_events(self) -> list[dict[str, Any]]:
        """Return the events of the cluster, the oldest first."""
        shown = self.type("cluster.events", "--lines", "1000", "--output", "json")
        events: list[dict[str, Any]] = json.loads(shown)["events"]
        return events

    def count(self, kind: str) -> int:
        """Return how many events of a kind there are."""
        return [event["kind"] for event in self.list_events()].count(kind)

    def sees(self, kind: str, number: int) -> bool:
        """Return whether there come to be so many events of a kind."""
        return within(LATE, lambda: self.count(kind) >= number)

    def serves(self) -> bool:
        """Return whether the cluster comes to serve."""
        return within(LATE, lambda: "serving" in self.type("cluster.status", code=None))

    def clear(self) -> None:
        """Leave no service and nothing that serves."""
        self.type("cluster.disable")
        self.type("cluster.down")
