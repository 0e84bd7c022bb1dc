"""`arm_guard`: nothing starts on a host whose memory nobody watches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkfleet.actions.action import NoArgs, Plan
from sparkfleet.actions.launching import Launch, Starting, place
from sparkfleet.actions.scene import Scene
from sparkfleet.launch import guards
from sparkfleet.model import Change
from sparkfleet.quantities import show_memory
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.link import Link


class ArmGuard(Starting[NoArgs]):
    """Arm the memory guard of every host, and see that it has taken its first sample.

    It ends the ranks of its host when less memory is available than `guard_loading`, or, once they
    serve, `guard_serving`. It needs no connection, and ends with the deployment.
    """

    name = "arm_guard"

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Arm where something is to be started, or runs with another guard than the wanted one."""
        launch = scene.recall(Launch)
        return {
            host.name: _plan(launch, host.name, scene.settings(host))
            for host in scene.cluster.hosts
            if host.name in seen
        }

    def apply(self, scene: Scene, link: Link, plan: Plan) -> Plan:
        """Arm it on one host."""
        loads = bool(scene.recall(Launch).reason)
        seen = guards.arm(link, place(scene, link.host), scene.settings(link.host), loads=loads)
        return replace(plan, message=f"{show_memory(seen or 0)} available")


def _plan(launch: Launch, name: str, settings: Settings) -> Plan:
    wanted, armed = guards.wanted(settings), launch.surveys[name].guard
    if wanted is None:
        return Plan(skip=True, message="guard: false")
    if not launch.reason and armed == wanted:
        return Plan(message="armed")
    loading = show_memory(settings.size("guard_loading"))
    text = f"end ranks below {loading} while loading, {show_memory(wanted.serving)} while serving"
    return Plan(changes=(Change(summary=text),))
