"""The part of the page that changes with every look: state, figures, ranks, hosts, events; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sparkfleet.page.content import PageContent, clean_page_text
from sparkfleet.page.tables import (
    UNKNOWN,
    Cell,
    Table,
    create_name,
    create_number,
    create_page_cell,
    create_page_table,
    create_status_cell,
    format_time,
)
from sparkfleet.quantities import format_memory, format_seconds

MAX_EVENTS = 50  # that are shown, the newest first
TONES = {  # state of a cluster or a host -> tone and mark
    "serving": ("good", "✓"),
    "running": ("good", "✓"),
    "starting": ("warn", "…"),
    "degraded": ("warn", "!"),
    "interrupted": ("warn", "!"),
    "orphans": ("warn", "!"),
    "wedged": ("bad", "✕"),
    "rank lost": ("bad", "✕"),
    "broken": ("bad", "✕"),
    "stopped": ("", "■"),
    "unknown": ("warn", "?"),
}
ALIVE = {True: ("works", "good"), False: ("lost", "bad"), None: (UNKNOWN, "warn")}
NO_LOAD = "the metrics of vLLM were not read: it does not answer, or runs with --disable-log-stats"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The top of the page."""

    state: Cell
    mark: str
    reason: str
    fix: tuple[str, ...]
    figures: tuple[tuple[str, Cell], ...]
    no_figures: str
    notes: tuple[str, ...]


def build_summary(content: PageContent) -> Summary:
    """Return state, reason, what to type, and the load of the endpoint."""
    health = content.status["health"]
    tone, mark = TONES.get(health["state"], ("warn", "?"))
    figures = tuple(_list_figures(content))
    return Summary(
        state=create_status_cell(health["state"], ("health", "state"), health["state"], tone=tone),
        mark=mark,
        reason=clean_page_text(health["reason"]),
        fix=tuple(clean_page_text(line) for line in health["fix"].splitlines()),
        figures=figures,
        no_figures="" if figures else _explain_no_figures(health),
        notes=tuple(
            clean_page_text(note)
            for note in (content.note, *content.status["notes"])
            if note.strip()
        ),
    )


def _explain_no_figures(health: Mapping[str, Any]) -> str:
    return NO_LOAD if health["should_serve"] else "no load: nothing is served"


def _list_figures(content: PageContent) -> Iterator[tuple[str, Cell]]:
    name, load = next(
        (
            (name, host["load"])
            for name, host in content.status["hosts"].items()
            if host.get("load")
        ),
        ("", None),
    )
    if load is None:
        return
    for label, key, form in (
        ("tokens/s generated", "generated", "{:.1f}"),
        ("prompt tokens/s read", "prompted", "{:.1f}"),
        ("requests running", "running", "{}"),
        ("requests waiting", "waiting", "{}"),
        ("KV cache in use", "cache", "{:.1%}"),
        ("time to first token", "ttft", "{:.2f} s"),
    ):
        value = load[key]
        text = "no requests" if value is None else form.format(value)
        yield label, create_status_cell(text, ("hosts", name, "load", key), value)


def build_rank_table(content: PageContent) -> Table:
    """Return each rank, whether it works, its process and its GPU memory."""
    ranks = content.status["health"]["ranks"]
    return create_page_table(
        "Ranks",
        ("rank", "host", "state", "process", "GPU memory", "reason, last line of its log"),
        (_build_rank_row(at, rank) for at, rank in enumerate(ranks)),
        empty="No ranks: no host has a record of a deployment.",
    )


def _build_rank_row(at: int, rank: Mapping[str, Any]) -> Iterator[Cell]:
    path = ("health", "ranks", at)
    text, tone = ALIVE[rank["alive"]]
    memory = rank["gpu_memory"]
    since = f" since {format_time(rank['since'])}" if rank["since"] else ""
    last = f"last line: {rank['last_line']}" if rank["problem"] and rank["last_line"] else ""
    yield create_status_cell(str(rank["rank"]), (*path, "rank"), rank["rank"])
    yield create_name(rank["host"])
    yield create_status_cell(f"{text}{since}", (*path, "alive"), rank["alive"], tone=tone)
    yield create_status_cell(
        "not found" if rank["pid"] is None else str(rank["pid"]),
        (*path, "pid"),
        rank["pid"],
        form="number",
    )
    yield create_status_cell(
        "not reported" if memory is None else format_memory(memory),
        (*path, "gpu_memory"),
        memory,
        form="number",
    )
    yield create_page_cell("; ".join(filter(None, (rank["problem"], last))))


def build_host_table(content: PageContent) -> Table:
    """Return each host with its roles, memory, GPU and the throughput of its links."""
    return create_page_table(
        "Hosts",
        ("host", "state", "roles", "memory free", "of", "power", "temperature", "clock", "links"),
        (_build_host_row(content, name) for name in content.status["hosts"]),
        empty="No hosts in the inventory.",
    )


def _build_host_row(content: PageContent, name: str) -> Iterator[Cell]:
    host = content.status["hosts"][name]
    path = ("hosts", name)
    tone, _ = TONES.get(host["state"], ("bad", ""))
    yield create_name(name)
    yield create_status_cell(host["state"], (*path, "state"), host["state"], tone=tone)
    if "error" in host:
        yield create_page_cell(host["error"])
        yield from (create_page_cell(UNKNOWN) for _ in range(6))
        return
    yield create_page_cell(", ".join(map(_format_role, host["roles"].items())) or "none")
    for key in ("available", "total"):
        value = (host["memory"] or {}).get(key)
        text = UNKNOWN if value is None else format_memory(value)
        yield create_status_cell(text, (*path, "memory", key), value, form="number")
    yield from _list_gpu_cells(host["gpu"] or {}, path)
    rate = content.rates.get(name)
    yield create_number(
        f"{rate.received:.2f} in, {rate.sent:.2f} out Gb/s" if rate else "no traffic"
    )


def _list_gpu_cells(gpu: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[Cell]:
    slowed = gpu.get("slowed") or ()
    for key, form in (("power", "{:.0f} W"), ("temperature", "{:.0f} °C"), ("clock", "{:.0f} MHz")):
        value = gpu.get(key)
        text = "not reported" if value is None else form.format(value)
        is_slowed = key == "clock" and slowed
        ending = f", slowed by {' and '.join(slowed)}" if is_slowed else ""
        yield create_status_cell(
            f"{text}{ending}",
            (*path, "gpu", key),
            value,
            tone="warn" if is_slowed else "",
            form="number",
        )


def _format_role(item: tuple[str, Mapping[str, Any]]) -> str:
    name, role = item
    if not role["alive"]:
        return f"{name} (ended)"
    return f"{name} ({format_seconds(role['seconds'] or 0)})"


def build_event_table(content: PageContent) -> Table:
    """Return the last events, the newest first."""
    shown = content.events[-MAX_EVENTS:][::-1]
    rest = len(content.events) - len(shown)
    return create_page_table(
        "Events",
        ("time", "event", "what happened", "cause", "recipe", "by"),
        (
            (
                create_name(format_time(event.at)),
                create_name(event.kind, tone=_pick_event_tone(event.kind)),
                create_page_cell(f"{event.state}: {event.text}" if event.state else event.text),
                create_page_cell(event.cause),
                create_page_cell(event.recipe),
                create_name(event.by),
            )
            for event in shown
        ),
        empty=content.missing.get("events") or "No events are recorded on the head.",
        note=f"{rest} older events are on {content.head}." if rest else "",
    )


def _pick_event_tone(kind: str) -> str:
    if "failed" in kind or kind == "gave-up":
        return "bad"
    return "good" if kind in ("started", "relaunched") else ""
