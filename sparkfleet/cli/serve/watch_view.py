"""One sample of `serve.watch`, as lines or as a JSON document."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sparkfleet.cli.exit_codes import compute_exit_code
from sparkfleet.cli.views.health import serialize_health
from sparkfleet.errors import SparkfleetError
from sparkfleet.launch.endpoint.health import ClusterHealth, HostLook
from sparkfleet.launch.host.vitals import LinkRate, TrafficSample, Vitals, compute_link_rate
from sparkfleet.quantities import format_memory
from sparkfleet.vllm.metrics import Sample, ServerLoad


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """One sample of a host; `traffic` is that of its previous sample and of this one."""

    vitals: Vitals
    look: HostLook
    traffic: tuple[TrafficSample, ...]

    @property
    def links(self) -> LinkRate | None:
        """The rate of the ranks' interfaces since the previous sample."""
        return compute_link_rate(self.traffic)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One sample of all hosts; `load` is None without the endpoint's metrics."""

    at: float  # seconds since the epoch
    health: ClusterHealth
    answers: bool
    load: ServerLoad | None
    sample: Sample | None
    hosts: Mapping[str, HostView]
    errors: Mapping[str, SparkfleetError]

    @property
    def code(self) -> int:
        """The exit code of a watch that ends now."""
        return compute_exit_code(self.errors.values(), refused=not self.answers)


def format_view(view: View) -> Iterator[str]:
    """Yield the lines of a sample: load, each host, and the verdict on health."""
    clock = time.strftime("%H:%M:%S", time.localtime(view.at))
    silent = "is healthy, without metrics" if view.answers else "does not answer"
    yield f"{clock} {view.load or f'the endpoint {silent}'}"
    for name, host in view.hosts.items():
        yield f"{name} {_format_host(host)}"
    for name, error in view.errors.items():
        yield f"{name}: {error.message}"
    yield str(view.health)


def _format_host(host: HostView) -> str:
    memory = host.vitals.memory
    free_memory = format_memory(memory.available) if memory else "?"
    parts = (f"{free_memory} free", str(host.vitals.gpu_state or ""), str(host.links or ""))
    return ", ".join(filter(None, parts))


def build_view_document(view: View) -> dict[str, Any]:
    """Return a sample as the content of a JSON document."""
    hosts = view.hosts.items()
    return {
        "at": view.at,
        "healthy": view.answers,
        "health": serialize_health(view.health),
        "load": asdict(view.load) if view.load else None,
        "memory": {name: _serialize(host.vitals.memory) for name, host in hosts},
        "gpu": {name: _serialize(host.vitals.gpu_state) for name, host in hosts},
        "links": {name: _serialize(host.links) for name, host in hosts},
        "errors": {name: error.message for name, error in view.errors.items()},
    }


def _serialize(value: Any) -> dict[str, Any] | None:
    return None if value is None else asdict(value)
