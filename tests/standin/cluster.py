"""A cluster on two lab hosts that serves from the stand-in engine, and what is seen of it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import urllib.error
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.lab import fleet
from sparkfleet.lab.fleet import LabFleet
from tests.commandline import Done, Event, becomes, chat, command_line, processes, type_command
from tests.standin import engine

HOSTS = ("spark-01", "spark-02")
FOLDER = "/home/nvidia/vllm/.sparkfleet/default"
PASSING = (
    "lock",
    "lock-last",
    "links.json",
    "guard.json",
    "guard.serving",
    "events.jsonl",
)  # next to the deployment
CLEAR = f"find {FOLDER} -mindepth 1 ! -name lock ! -name links.json -delete"
SHOW = (
    f"cd {FOLDER} 2>/dev/null && find . ! -path './logs/*' -type f"
    " -exec sh -c 'echo \"<<< $1\"; cat $1' _ {} \\;"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The state of one host: files of the deployment by name, its hash, engine processes, ports."""

    files: Mapping[str, str]
    hash: str | None
    processes: Mapping[int, str]
    ports: frozenset[int]

    def unlike(self, other: Seen) -> list[str]:
        """Name what a deployment that was stopped and started again has not in common with it."""
        names = {*self.files, *other.files}
        found = [name for name in names if self.files.get(name) != other.files.get(name)]
        found += [] if self.hash == other.hash else [f"hash {self.hash}, not {other.hash}"]
        if len(self.processes) != len(other.processes):
            found.append(f"processes {self.processes}, not {other.processes}")
        if self.ports != other.ports:
            found.append(f"ports {sorted(self.ports)}, not {sorted(other.ports)}")
        return sorted(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The command line and the hosts behind it."""

    lab: LabFleet
    inventory: Path
    first: dict[str, str] = field(default_factory=dict)  # the previous deployment's hash, by host

    def run(self, *words: str, events: Sequence[Event] = ()) -> Done:
        """Run a command line to its end; `events` happen meanwhile."""
        return type_command(*words, "--inventory", str(self.inventory), events=events)

    def hung_up(self, words: Sequence[str], mark: str) -> int:
        """Run a command line on a terminal, close that at a line with `mark`; return its status."""
        pid, terminal = pty.fork()
        if pid == 0:
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run under nohup
            line = command_line(*words, "--inventory", str(self.inventory))
            os.execv(line[0], line)  # noqa: S606 - argv is a constant
        with os.fdopen(terminal, "rb", buffering=0) as screen:
            text = b""
            while mark.encode() not in text:
                text += screen.read(4096)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def up(self, *words: str, events: Sequence[Event] = ()) -> Done:
        """Run `cluster.up --tp 2` to its end."""
        return self.run("cluster.up", "--tp", "2", *words, events=events)

    def serve(self) -> dict[str, Seen]:
        """See to it that the previous deployment of all cases serves; return what that looks like.

        Whatever a case left is brought down first.
        """
        seen = self.look()
        hashes = {host: one.hash for host, one in seen.items()}
        if not self.first or hashes != self.first or not self.answers():
            self.clear()
            done = self.up()
            assert done.code == 0, done.output
            seen = self.look()
            self.first.update({host: one.hash or "" for host, one in seen.items()})
        return seen

    def clear(self) -> dict[str, Seen]:
        """See to it that nothing of sparkfleet runs; return what that looks like."""
        seen = self.look()
        if any(one.processes or one.files for one in seen.values()):
            done = self.run("cluster.down")
            assert done.code == 0, done.output
            for host in HOSTS:
                fleet.run_on(host, ["sh", "-c", CLEAR])
            seen = self.look()
        assert all(not one.processes for one in seen.values()), seen
        return seen

    def look(self) -> dict[str, Seen]:
        """Return what is on every host that is on."""
        current = fleet.read_fleet()
        assert current is not None
        return {host.name: look(host.name) for host in current.hosts if host.alive}

    def processes(self) -> dict[str, Mapping[int, str]]:
        """Return the engine's processes on every host that is on."""
        return {host: one.processes for host, one in self.look().items()}

    def answers(self) -> bool:
        """Return whether the endpoint answers the smoke prompt."""
        try:
            return chat(self.lab.hosts[0].address, "12*17", model="standin") == "204"
        except (urllib.error.URLError, OSError):
            return False

    def answers_again(self) -> bool:
        """Return whether it does so before long."""
        return becomes(self.answers)


def look(host: str) -> Seen:
    """Return what is on one host."""
    text = fleet.run_on(host, ["sh", "-c", SHOW], check=False).stdout
    parts = (part.split("\n", 1) for part in text.split("<<< ./")[1:])
    files = {name: content for name, content in parts if name not in PASSING}
    record = json.loads(files.pop("deployment.json", "null"))
    files |= {name: "of this start" for name in files if name == "ray-token"}
    listeners = fleet.run_on(host, ["ss", "-Htln"]).stdout
    return Seen(
        files=files,
        hash=record.get("hash") if isinstance(record, dict) else None,
        processes=processes(host),
        ports=frozenset(int(port) for port in re.findall(r":(\d+) +\S+:\*", listeners)),
    )


def boot(host: str) -> None:
    """Turn a host on again, with its engine."""
    fleet.set_fault(host, "power-off", clear=True)
    engine.install(host)


@contextmanager
def start_cluster(folder: Path, **variables: Any) -> Iterator[Cluster]:
    """Boot a fresh lab of two hosts with the engine; yield its cluster, on which nothing runs.

    The state of this machine is below `folder` meanwhile. `variables` go into the inventory.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        fleet.remove_fleet()
        lab = fleet.start_fleet(len(HOSTS))
        engine.install(*HOSTS)
        yield Cluster(lab=lab, inventory=engine.inventory(lab, folder, **variables))
        fleet.remove_fleet()
