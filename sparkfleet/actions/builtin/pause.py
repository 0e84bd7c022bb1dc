"""`pause`: wait for some time, or for Enter at the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sparkfleet.actions.action import HostAction, Plan, arg
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import NOTHING, RunState
from sparkfleet.errors import PlaybookError
from sparkfleet.report.visible import escape_control


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseArgs:
    """The arguments of `pause`."""

    seconds: float = arg("how long to wait", default=0.0)
    minutes: float = arg("how long to wait, in minutes", default=0.0)
    prompt: str = arg("the question; waits for Enter at the terminal", default="")


class Pause(HostAction[PauseArgs]):
    """Wait once for all hosts together; Ctrl-C stops the run. Not under --check."""

    name = "pause"
    args_type = PauseArgs
    once = True

    @classmethod
    def validate_args(cls, args: PauseArgs) -> Iterator[str]:
        """Require a time or a question."""
        if args.seconds < 0 or args.minutes < 0:
            yield "seconds and minutes must be >= 0"
        if not args.prompt and not (args.seconds or args.minutes):
            yield "requires seconds, minutes or prompt"

    def decide(self, run: RunContext, host: str, inspected: Any) -> Plan:
        """Raise PlaybookError for a question without a terminal."""
        if run.options.check:
            return Plan(skip=True, message="no waiting in check mode")
        if self.args[host].prompt and not sys.stdin.isatty():
            raise PlaybookError(
                "pause: prompt requires a terminal",
                where=self.where,
                hint="use seconds instead of prompt, or run in a terminal",
            )
        return Plan()

    def settle(self, run: RunContext, plans: Mapping[str, Plan]) -> RunState:
        """Wait here and not on a host's thread, so that Ctrl-C stops it at once."""
        for host in () if run.options.check else plans:
            args = self.args[host]
            if args.prompt:
                input(f"{escape_control(args.prompt)} [Enter] ")
            time.sleep(args.seconds + 60 * args.minutes)
        return NOTHING
