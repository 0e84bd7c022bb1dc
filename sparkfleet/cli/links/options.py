"""Options of `links.*`."""

from __future__ import annotations

from dataclasses import dataclass

from sparkfleet.cli.options import Options, duration, flag, option


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkMapOptions(Options):
    """Options of `links.show`."""

    svg: str | None = option("write a drawing of the cables to this file")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkBenchOptions(Options):
    """Options of `links.bench`; `seconds` is how long each direction is measured."""

    seconds: float = option(
        "how long each direction is measured", duration(least=0.01), default=1.0
    )
    collective: bool = flag(
        "also time all_gather and all_reduce in the engine's environment", default=True
    )
    svg: str | None = option("write a plot of the rates to this file")
