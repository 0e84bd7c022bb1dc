"""`wait_tcp`: wait until a port accepts connections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sparkfleet.actions.action import arg
from sparkfleet.actions.builtin.base_wait import BaseWait, BaseWaitArgs


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitTcpArgs(BaseWaitArgs):
    """The arguments of `wait_tcp`."""

    port: int = arg("the port")
    host: str = arg("name or address, as seen from the host", default="127.0.0.1")
    state: Literal["started", "stopped"] = arg(
        "started: it accepts connections; stopped: it does not", default="started"
    )


class WaitTcp(BaseWait[WaitTcpArgs]):
    """Wait until a TCP port accepts connections, or no longer does."""

    name = "wait_tcp"
    args_type = WaitTcpArgs

    @classmethod
    def validate_args(cls, args: WaitTcpArgs) -> Iterator[str]:
        """Require a port."""
        if not 1 <= args.port <= 65535:
            yield f"port must be between 1 and 65535 (got {args.port})"

    def build_condition(self, args: WaitTcpArgs) -> Mapping[str, Any]:
        """Wait for the port."""
        tcp = {"host": args.host, "port": args.port, "open": args.state == "started"}
        return {"tcp": tcp}
