"""The content of the page: everything that is shown, as values; `missing` says what is not known.

All text in it comes from hosts, logs and models, and is hostile: `clean_page_text` is the only way
from it to the page, and templates escape the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkfleet.doctor.diagnosis import Diagnosis
from sparkfleet.launch.endpoint.bench_history import BenchEntry
from sparkfleet.launch.host.vitals import LinkRate, TrafficSample
from sparkfleet.launch.watching.events import ClusterEvent
from sparkfleet.links.drawing.svg_map import CableMapRow
from sparkfleet.links.model import Fabric
from sparkfleet.links.receipt import MeasuredLinks
from sparkfleet.model import EMPTY, Verdict
from sparkfleet.recipes.explanation import Setting
from sparkfleet.report.redaction import redact_secrets
from sparkfleet.report.visible import escape_control, escape_line

MAX_TEXT = 600  # characters of one text


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkMap:
    """The fabric with its rails, the verdicts of the static gate, and the rates that were measured.

    `measured` is None where no host has a receipt; `expiry` says why rates are no longer proven.
    """

    fabric: Fabric
    rows: tuple[CableMapRow, ...]
    verdicts: tuple[Verdict, ...] = ()
    measured: MeasuredLinks | None = None
    expiry: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A deployment that serves, by the record on the head."""

    url: str
    model: str
    recipe: str
    deployment: str
    executor: str
    tp: int
    pp: int
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """The part of the content that changes rarely, and is read less often.

    `missing` maps a section to why it is empty. `durations` are seconds of tasks in the last runs
    on this machine: kind of run -> task -> seconds, the newest last. `versions` are by host.
    """

    links: LinkMap | None = None
    served: Served | None = None
    settings: tuple[Setting, ...] = ()
    durations: Mapping[str, Mapping[str, Sequence[float]]] = field(default_factory=lambda: EMPTY)
    bench: tuple[BenchEntry, ...] = ()
    versions: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: EMPTY)
    diagnosis: Diagnosis | None = None
    missing: Mapping[str, str] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageContent:
    """All that a page shows of a cluster at one moment.

    `at` is in seconds since the epoch. `status` is the document of `cluster.status --output json`.
    `links` are the rates of each host's interfaces, `traffic` their counters. `events` are the last
    of the log on the head, the oldest first; `note` says what the watcher does about the state.
    """

    at: float
    cluster: str
    head: str
    version: str
    status: Mapping[str, Any]
    hosts: tuple[str, ...]
    rates: Mapping[str, LinkRate] = field(default_factory=lambda: EMPTY)
    traffic: Mapping[str, TrafficSample] = field(default_factory=lambda: EMPTY)
    carriers: Mapping[str, Mapping[str, bool]] = field(default_factory=lambda: EMPTY)
    events: tuple[ClusterEvent, ...] = ()
    note: str = ""
    background: Background = field(default_factory=Background)
    missing: Mapping[str, str] = field(default_factory=lambda: EMPTY)


def clean_page_text(value: Any) -> str:
    r"""Return a text as the page shows it: one bounded line without secrets.

    Characters that end a line, control a terminal or reverse text are shown as in ``\x1b``.
    """
    text = escape_line(redact_secrets(str(value)))
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 3]}..."


def clean_drawing(svg: str) -> str:
    """Return a drawing, whose texts are escaped for XML, without such characters."""
    return escape_control(svg)
