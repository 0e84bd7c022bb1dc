"""What `wait_tcp` and `wait_http` have in common: waiting on the host, as seen from there."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from sparkfleet.actions.action import HostAction, Plan, arg
from sparkfleet.actions.scene import Scene
from sparkfleet.commands import script
from sparkfleet.remote.link import Link

MARGIN = 30.0  # s beyond the wait: one more attempt, and Python's start


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingArgs:
    """What both have in common."""

    timeout: float = arg("seconds to wait at most", default=300.0)
    delay: float = arg("seconds before the first attempt", default=0.0)


W = TypeVar("W", bound=WaitingArgs)


class Waiting(HostAction[W]):
    """Waits on the host itself, and stops when the run is cut."""

    @abstractmethod
    def wanted(self, args: W) -> Mapping[str, Any]:
        """Return what the program waits for."""

    def decide(self, scene: Scene, host: str, seen: Any) -> Plan:
        """Wait, but not under --check: what is waited for was not started."""
        if scene.options.check:
            return Plan(skip=True, message="not waited for in check mode")
        return Plan(work=True)

    def apply(self, scene: Scene, link: Link, plan: Plan) -> Plan:
        """Wait on one host."""
        args = self.args[link.host.name]
        request = {"timeout": args.timeout, "delay": args.delay, **self.wanted(args)}
        limit = args.delay + args.timeout + MARGIN
        result = link.run(script("wait", request), timeout=limit, hold=True)
        answer = link.answer("wait", result)
        return Plan(message=f"{answer['seen']} after {answer['waited']} s", data=answer)
