"""Options of `gateway.*`."""

from __future__ import annotations

from dataclasses import dataclass

from sparkfleet.cli.options import Options, flag, number, option


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLogsOptions(Options):
    """Options of `gateway.logs`."""

    lines: int = option("how many lines of the log", number(), default=40)
    follow: bool = flag("then show every new line, until Ctrl-C")
