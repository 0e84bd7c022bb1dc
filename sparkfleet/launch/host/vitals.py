"""Current state of a host and its endpoint: memory, GPU, health and load."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkfleet.facts.gpu_state import GpuState, parse_gpu_state
from sparkfleet.facts.machine import GpuProcess, Memory, parse_gpu_processes, parse_memory
from sparkfleet.facts.readings import Readings
from sparkfleet.remote.connection import Connection
from sparkfleet.values import (
    convert_flag,
    convert_integer,
    convert_list,
    convert_mapping,
    convert_number,
    convert_string,
)
from sparkfleet.vllm.metrics import Sample, ServerLoad, compute_load

BITS = 8 / 1e9  # Gb of a byte
MAX_COUNTER = 1 << 64  # bytes that a counter of the kernel can hold
GAP = 1.0  # seconds between two samples of the endpoint's counters
TIMEOUT = 30.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficSample:
    """Bytes that the ranks' interfaces had received and sent `at` a time, in s of its host."""

    at: float
    received: int
    sent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRate:
    """Rates of the ranks' interfaces of a host together, in Gb/s."""

    received: float
    sent: float

    def __str__(self) -> str:
        return f"links {self.received:.2f} Gb/s in, {self.sent:.2f} out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """The answer of `onhost/deployment/vitals.py`.

    `ages` are seconds by PID. `health` is None if the endpoint is on another host. `labels` are
    all clusters with processes or containers on the host. `busy`: a run holds the cluster's lock.
    `traffic` are counters of the ranks' interfaces, oldest first.
    """

    memory: Memory | None
    gpu: tuple[GpuProcess, ...]
    ages: Mapping[int, float]
    busy: bool
    labels: tuple[str, ...]
    health: bool | None = None
    samples: tuple[Sample, ...] = ()
    gpu_state: GpuState | None = None
    traffic: tuple[TrafficSample, ...] = ()

    @property
    def load(self) -> ServerLoad | None:
        """Load of the endpoint between the first and the last sample of its counters."""
        return compute_load(self.samples[0], self.samples[-1]) if len(self.samples) > 1 else None


def compute_link_rate(samples: Sequence[TrafficSample]) -> LinkRate | None:
    """Return the rates from the first sample to the last.

    None for one sample, where a count fell, and where the ranks use no interface: nothing was sent.
    """
    if len(samples) < 2 or not samples[-1].sent + samples[-1].received:
        return None
    first = samples[0]
    last = samples[-1]
    seconds = last.at - first.at
    received = last.received - first.received
    sent = last.sent - first.sent
    if seconds <= 0 or min(received, sent) < 0:  # the host was restarted
        return None
    return LinkRate(received=received * BITS / seconds, sent=sent * BITS / seconds)


def query_vitals(
    connection: Connection,
    location: Mapping[str, str],
    *,
    url: str | None,
    pids: Sequence[int] = (),
    samples: int = 1,
) -> Vitals:
    """Return the vitals of one host; each sample of its counters after the first takes 1 s.

    `url` is that of the endpoint, as the host reaches it; None where it is on another host.
    """
    options = {"url": url, "pids": list(pids), "looks": samples, "gap": GAP}
    request = {**location, "cli": location.get("cli"), **options}
    return connection.query("deployment/vitals", request, parse_vitals, timeout=TIMEOUT)


def parse_vitals(answer: Mapping[str, Any]) -> Vitals:
    """Return the vitals in the program's `answer`."""
    return Vitals(
        memory=parse_memory(Readings({"/proc/meminfo": {"text": answer["meminfo"]}})),
        gpu=parse_gpu_processes(answer["apps"]),
        ages={int(pid): float(age) for pid, age in answer["ages"].items() if age is not None},
        busy=convert_flag(answer["busy"], strict=True),
        labels=tuple(map(convert_string, convert_list(answer["labels"]))),
        health=None if answer["health"] is None else convert_flag(answer["health"], strict=True),
        samples=tuple(map(parse_sample, convert_list(answer["samples"]))),
        gpu_state=parse_gpu_state(answer["gpu_state"], answer["gpu_reasons"]),
        traffic=tuple(
            TrafficSample(
                at=convert_number(sample["at"], strict=True),
                received=convert_integer(
                    sample["received"], minimum=0, maximum=MAX_COUNTER, strict=True
                ),
                sent=convert_integer(sample["sent"], minimum=0, maximum=MAX_COUNTER, strict=True),
            )
            for sample in answer["traffic"]
        ),
    )


def parse_sample(answer: Any) -> Sample:
    """Return the counters of an engine; one that is not a number is left out."""
    sample = {name: float(value) for name, value in convert_mapping(answer).items()}
    convert_number(sample["at"])
    return {name: value for name, value in sample.items() if math.isfinite(value)}
