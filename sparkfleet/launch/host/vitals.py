"""Current state of a host and its endpoint: memory, GPU, health and load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkfleet.facts.machine import GpuProcess, Memory, parse_gpu_processes, parse_memory
from sparkfleet.facts.readings import Readings
from sparkfleet.remote.connection import Connection
from sparkfleet.vllm.metrics import Sample, ServerLoad, compute_load

GAP = 1.0  # s between two samples of the endpoint's counters
TIMEOUT = 30.0  # s


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """The answer of `onhost/deployment/vitals.py`.

    `ages` are seconds by PID. `health` is None if the endpoint is on another host. `labels` are
    all clusters with processes or containers on the host. `busy`: a run holds the cluster's lock.
    """

    memory: Memory | None
    gpu: tuple[GpuProcess, ...]
    ages: Mapping[int, float]
    busy: bool
    labels: tuple[str, ...]
    health: bool | None = None
    samples: tuple[Sample, ...] = ()

    @property
    def load(self) -> ServerLoad | None:
        """Load of the endpoint between the first and the last sample of its counters."""
        return compute_load(self.samples[0], self.samples[-1]) if len(self.samples) > 1 else None


def query_vitals(
    connection: Connection,
    location: Mapping[str, str],
    *,
    port: int | None,
    pids: Sequence[int] = (),
    samples: int = 2,
) -> Vitals:
    """Return the vitals of one host; each sample of its endpoint after the first takes 1 s."""
    options = {"port": port, "pids": list(pids), "looks": samples, "gap": GAP}
    request = {**location, "cli": location.get("cli"), **options}
    return connection.query("deployment/vitals", request, parse_vitals, timeout=TIMEOUT)


def parse_vitals(answer: Mapping[str, Any]) -> Vitals:
    """Return the vitals in the program's `answer`."""
    return Vitals(
        memory=parse_memory(Readings({"/proc/meminfo": {"text": answer["meminfo"]}})),
        gpu=parse_gpu_processes(answer["apps"]),
        ages={int(pid): float(age) for pid, age in answer["ages"].items() if age is not None},
        busy=bool(answer["busy"]),
        labels=tuple(map(str, answer["labels"])),
        health=answer["health"],
        samples=tuple(answer["samples"]),
    )
