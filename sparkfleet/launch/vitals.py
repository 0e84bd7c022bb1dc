"""How a host and what it serves are doing now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkfleet.facts.machine import GpuProcess, Memory, gpu_processes, memory
from sparkfleet.facts.readings import Readings
from sparkfleet.launch.load import Load, Sample, between
from sparkfleet.remote.link import Link

GAP = 1.0  # s between two looks at the endpoint's counters
TIMEOUT = 30.0  # s


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """What `onhost/vitals.py` saw.

    `ages` are seconds by PID. `health` is None where the endpoint is on another host. `labels` are
    all clusters of ours that have something on the host. `busy`: a run holds the cluster's lock.
    """

    memory: Memory | None
    gpu: tuple[GpuProcess, ...]
    ages: Mapping[int, float]
    busy: bool
    labels: tuple[str, ...]
    health: bool | None = None
    samples: tuple[Sample, ...] = ()

    @property
    def load(self) -> Load | None:
        """What the endpoint did from the first to the last look at its counters."""
        return between(self.samples[0], self.samples[-1]) if len(self.samples) > 1 else None


def ask_vitals(
    link: Link,
    place: Mapping[str, str],
    *,
    port: int | None,
    pids: Sequence[int] = (),
    looks: int = 2,
) -> Vitals:
    """Look at one host; each look after the first at an endpoint that is on it takes a second."""
    about = {"port": port, "pids": list(pids), "looks": looks, "gap": GAP}
    request = {**place, "cli": place.get("cli"), **about}
    return parse(link.ask("vitals", request, timeout=TIMEOUT))


def parse(answer: Mapping[str, Any]) -> Vitals:
    """Return the vitals in the program's `answer`."""
    return Vitals(
        memory=memory(Readings({"/proc/meminfo": {"text": answer["meminfo"]}})),
        gpu=gpu_processes(answer["apps"]),
        ages={int(pid): age for pid, age in answer["ages"].items() if age is not None},
        busy=answer["busy"],
        labels=tuple(answer["labels"]),
        health=answer["health"],
        samples=tuple(answer["samples"]),
    )
