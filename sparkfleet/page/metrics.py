"""Metrics of hosts, ranks and the cluster in the text form of Prometheus; pure.

The form is that of https://prometheus.io/docs/instrumenting/exposition_formats/, the names follow
https://prometheus.io/docs/practices/naming/: base units, and `_total` for counters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sparkfleet.launch.endpoint.health import HealthState
from sparkfleet.page.content import PageContent, clean_page_text

KIND = "text/plain; version=0.0.4; charset=utf-8"
HERTZ = 1e6  # of a MHz

Labels = Mapping[str, Any]
Samples = Iterable[tuple[Labels, float | int | bool | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFamily:
    """The samples of one name; a value of None is left out: it is not known."""

    name: str
    kind: str  # gauge or counter
    help: str
    samples: tuple[tuple[Labels, float | int | bool | None], ...]


def list_cluster_metrics(content: PageContent) -> Iterator[MetricFamily]:
    """Yield the metrics of the cluster, its health and its ranks."""
    health = content.status["health"]
    yield _gauge("build_info", "Version of sparkfleet.", [({"version": content.version}, 1)])
    yield _gauge(
        "look_timestamp_seconds", "Time of the last check of the hosts.", [({}, content.at)]
    )
    yield _gauge(
        "health_state",
        "1 for the state of the cluster, 0 for each other state.",
        [({"state": state.value}, health["state"] == state.value) for state in HealthState],
    )
    yield _gauge(
        "should_serve",
        "Whether the cluster was started and not stopped.",
        [({}, health["should_serve"])],
    )
    ranks = [({"rank": rank["rank"], "host": rank["host"]}, rank) for rank in health["ranks"]]
    yield _gauge(
        "rank_alive",
        "Whether a rank works; no sample where this is unknown.",
        [(labels, rank["alive"]) for labels, rank in ranks],
    )
    yield _gauge(
        "rank_gpu_memory_bytes",
        "GPU memory of a rank, where the GPU reports it.",
        [(labels, rank["gpu_memory"]) for labels, rank in ranks],
    )
    times = {str(event.kind): event.at for event in content.events}
    yield _gauge(
        "last_event_timestamp_seconds",
        "When an event of this kind was last recorded, by the clock of the head.",
        [({"kind": kind}, at) for kind, at in sorted(times.items())],
    )


def list_host_metrics(content: PageContent, names: Iterable[str]) -> Iterator[MetricFamily]:
    """Yield the metrics of the hosts `names`."""
    hosts = {name: content.status["hosts"][name] for name in names}
    known = {name: host for name, host in hosts.items() if "error" not in host}
    yield _gauge(
        "host_reached",
        "Whether the host answered the last check.",
        [({"host": name}, name in known) for name in hosts],
    )
    for field_name, text in (("total", "Memory of the host."), ("available", "Memory not in use.")):
        yield _gauge(
            f"host_memory_{field_name}_bytes",
            text,
            [({"host": name}, _pick(host, "memory", field_name)) for name, host in known.items()],
        )
    yield from _list_gpu_metrics(known)
    yield from _list_role_metrics(known)
    yield from _list_link_metrics(content, known)


def _list_gpu_metrics(hosts: Mapping[str, Any]) -> Iterator[MetricFamily]:
    for name, key, scale, text in (
        ("gpu_power_watts", "power", 1.0, "Power draw of the GPU."),
        ("gpu_temperature_celsius", "temperature", 1.0, "Temperature of the GPU."),
        ("gpu_clock_hertz", "clock", HERTZ, "Clock of the GPU's cores."),
    ):
        values = {host: _pick(status, "gpu", key) for host, status in hosts.items()}
        yield _gauge(
            name,
            text,
            [
                ({"host": host}, None if value is None else value * scale)
                for host, value in values.items()
            ],
        )
    yield _gauge(
        "gpu_slowed",
        "1 for each reason that keeps the clock below what the load would get.",
        [
            ({"host": host, "reason": reason}, 1)
            for host, status in hosts.items()
            for reason in _pick(status, "gpu", "slowed") or ()
        ],
    )


def _list_role_metrics(hosts: Mapping[str, Any]) -> Iterator[MetricFamily]:
    roles = [
        ({"host": host, "role": name}, role)
        for host, status in hosts.items()
        for name, role in status["roles"].items()
    ]
    yield _gauge(
        "role_alive",
        "Whether the process of a role runs.",
        [(key, role["alive"]) for key, role in roles],
    )
    yield _gauge(
        "role_age_seconds",
        "Time since the process of a role started.",
        [(key, role["seconds"]) for key, role in roles],
    )
    yield _gauge(
        "endpoint_healthy",
        "Whether /health of vLLM answers with 200, on the host of the endpoint.",
        [({"host": host}, status["healthy"]) for host, status in hosts.items()],
    )


def _list_link_metrics(content: PageContent, hosts: Mapping[str, Any]) -> Iterator[MetricFamily]:
    yield _gauge(
        "rail_carrier",
        "Whether an interface that the ranks use has a carrier.",
        [
            ({"host": host, "netdev": netdev}, carrier)
            for host in hosts
            for netdev, carrier in content.carriers.get(host, {}).items()
        ],
    )
    for way in ("received", "sent"):
        yield MetricFamily(
            name=f"sparkfleet_links_{way}_bytes_total",
            kind="counter",
            help=f"Bytes {way} by the interfaces that the ranks use.",
            samples=tuple(
                ({"host": host}, getattr(content.traffic[host], way))
                for host in hosts
                if host in content.traffic
            ),
        )


def format_metrics(content: PageContent, families: Iterable[MetricFamily]) -> str:
    """Return metrics as text; each sample also has the label `cluster`."""
    return "".join(line for family in families for line in _format_family(family, content.cluster))


def _format_family(family: MetricFamily, cluster: str) -> Iterator[str]:
    samples = [(labels, value) for labels, value in family.samples if value is not None]
    if not samples:
        return
    yield f"# HELP {family.name} {family.help}\n"
    yield f"# TYPE {family.name} {family.kind}\n"
    for labels, value in samples:
        pairs = ",".join(
            f'{name}="{_escape_label(text)}"'
            for name, text in {"cluster": cluster, **labels}.items()
        )
        yield f"{family.name}{{{pairs}}} {_format_number(value)}\n"


def _escape_label(value: Any) -> str:
    text = clean_page_text(value)
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _format_number(value: float) -> str:
    number = float(value)
    return str(int(number)) if number.is_integer() else repr(number)


def _gauge(name: str, text: str, samples: Samples) -> MetricFamily:
    return MetricFamily(name=f"sparkfleet_{name}", kind="gauge", help=text, samples=tuple(samples))


def _pick(host: Mapping[str, Any], section: str, key: str) -> Any:
    """Return a value of a host's status, None where the host did not report it."""
    return (host.get(section) or {}).get(key)
