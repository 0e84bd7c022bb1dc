"""How a host and what it serves are doing now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkfleet.facts.machine import GpuProcess, Memory, gpu_processes, memory
from sparkfleet.facts.readings import Readings
from sparkfleet.remote.link import Link

GAP = 1.0  # s between two looks at the endpoint's counters
TIMEOUT = 30.0  # s


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the endpoint does: tokens a second over the time between two looks, and requests."""

    generated: float
    prompted: float
    running: int
    waiting: int


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
    load: Load | None = None


def ask_vitals(
    link: Link, place: Mapping[str, str], *, port: int | None, pids: Sequence[int]
) -> Vitals:
    """Look at one host; takes a second longer where the endpoint is on it."""
    about = {"cli": place.get("cli"), "port": port, "pids": list(pids), "gap": GAP}
    return parse(link.ask("vitals", {**place, **about}, timeout=TIMEOUT))


def parse(answer: Mapping[str, Any]) -> Vitals:
    """Return the vitals in the program's `answer`."""
    return Vitals(
        memory=memory(Readings({"/proc/meminfo": {"text": answer["meminfo"]}})),
        gpu=gpu_processes(answer["apps"]),
        ages={int(pid): age for pid, age in answer["ages"].items() if age is not None},
        busy=answer["busy"],
        labels=tuple(answer["labels"]),
        health=answer["health"],
        load=_load(answer["samples"]),
    )


def _load(samples: Sequence[Mapping[str, float]]) -> Load | None:
    """Return the rates between two samples; a counter that began anew counts from nothing."""
    if len(samples) < 2:
        return None
    first, last = samples
    seconds = max(last["at"] - first["at"], 0.001)

    def rate(name: str) -> float:
        return max(last.get(name, 0.0) - first.get(name, 0.0), 0.0) / seconds

    return Load(
        generated=rate("vllm:generation_tokens_total"),
        prompted=rate("vllm:prompt_tokens_total"),
        running=int(last.get("vllm:num_requests_running", 0)),
        waiting=int(last.get("vllm:num_requests_waiting", 0)),
    )
