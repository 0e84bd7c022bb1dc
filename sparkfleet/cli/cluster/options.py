"""Options of `cluster.*`."""

from __future__ import annotations

from dataclasses import dataclass

from sparkfleet.cli.options import Options, duration, flag, number, option


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderOptions(Options):
    """Options of `cluster.render`."""

    out: str | None = option(
        "a folder that is new, empty, or written by an earlier render", value="FOLDER"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DownOptions(Options):
    """Options of `cluster.down`."""

    orphans: bool = flag("also stop clusters on these hosts that the inventory does not define")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlockOptions(Options):
    """Options of `cluster.unlock`."""

    force: bool = flag("also when the holder is a process that is running on this machine")


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
        "seconds between two looks; 10 by default", duration(least=1.0), default=10.0
    )
    once: bool = flag("one look, and what follows from it; then end")


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchOptions(Options):
    """Options of `cluster.switch`."""

    recipe: str = option("what to serve instead", default="", positional=True, value="RECIPE")
