"""Options of `cluster.*`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sparkfleet.cli.options import (
    Options,
    ValueParser,
    choice,
    duration,
    flag,
    number,
    option,
    parse_path,
)
from sparkfleet.errors import UsageError
from sparkfleet.variables.binding import LOOPBACK, PORT, Binding, parse_binding


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderOptions(Options):
    """Options of `cluster.render`."""

    out: Path | None = option(
        "a folder that is new, empty, or written by an earlier render", parse_path, value="FOLDER"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterUpOptions(Options):
    """Options of `cluster.up`."""

    every_cluster: bool = option(
        "every cluster of the inventory, in its order", default=False, kind=bool, name="all"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DownOptions(Options):
    """Options of `cluster.down`."""

    every_cluster: bool = option(
        "every cluster of the inventory, in its order", default=False, kind=bool, name="all"
    )
    orphans: bool = flag("also stop clusters on these hosts that the inventory does not define")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlockOptions(Options):
    """Options of `cluster.unlock`."""

    force: bool = flag("even if the holder is a process that is running on this machine")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusOptions(Options):
    """Options of `cluster.status`."""

    watch: bool = flag("repeat every two seconds, until Ctrl-C; with --output json a line each")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogsOptions(Options):
    """Options of `cluster.logs`."""

    lines: int = option("how many lines of each log", number(), default=40)
    follow: bool = flag("then show every new line of every host, until Ctrl-C")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsOptions(Options):
    """Options of `cluster.events`."""

    lines: int = option("how many events", number(), default=40)
    follow: bool = flag("then show every new event, until Ctrl-C; with --output json a line each")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterWatchOptions(Options):
    """Options of `cluster.watch`; `every` is in seconds."""

    every: float = option(
        "time between two checks, such as 5s or 1m", duration(least=1.0), default=5.0
    )
    once: bool = flag("check once, act on the result, and exit")


def _parse_bind(name: str, text: str) -> Binding:
    try:
        return parse_binding(text)
    except ValueError as error:
        raise UsageError(f"--{name}: {error}", hint=f"type: --{name} {LOOPBACK}:{PORT}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions(Options):
    """Options of `cluster.report`."""

    html: Path | None = option(
        "the file to write; an older one is replaced", parse_path, value="FILE"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOptions(Options):
    """Options of `cluster.page`; `every` is in seconds."""

    bind: Binding | None = option(
        "where to serve it; 127.0.0.1:8090 by default, or `page` of the inventory",
        ValueParser(parse=_parse_bind, value="ADDRESS:PORT"),
    )
    token_file: Path | None = option(
        "a file with a token that every request needs, which no other user can read",
        parse_path,
        value="FILE",
    )
    every: float = option(
        "time between two checks, such as 10s or 1m", duration(least=1.0), default=10.0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringOptions(Options):
    """Options of `cluster.export`."""

    to: str | None = option("for which program", choice(("prometheus", "grafana")))
    out: Path | None = option(
        "the file to write, by default standard output", parse_path, value="FILE"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EnableOptions(Options):
    """Options of `cluster.enable` and `cluster.disable`."""

    on_head: bool = flag("on the head instead of this machine; installs sparkfleet there")


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchOptions(Options):
    """Options of `cluster.switch`."""

    recipe: str = option("what to serve instead", default="", positional=True, value="RECIPE")
