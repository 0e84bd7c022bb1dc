"""`drop_caches`: an empty page cache right before a start, where that is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.becoming import password
from sparkfleet.actions.launching import Launch
from sparkfleet.actions.scene import Scene
from sparkfleet.launch import memory
from sparkfleet.model import Change
from sparkfleet.quantities import show_memory
from sparkfleet.remote.link import Link


class DropCaches(Action[NoArgs]):
    """Empty the page cache of every host that has `drop_caches: true`, if something is to start.

    vLLM counts the page cache as used memory (case C44). It takes `sudo`.
    """

    name = "drop_caches"

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Want it where it is asked for."""
        begins = bool(scene.recall(Launch).reason)
        wants = {
            host.name: scene.settings(host).value("drop_caches") for host in scene.cluster.hosts
        }
        change = Change(summary="empty the page cache")
        return {
            name: Plan(changes=(change,)) if wants[name] and begins else Plan(skip=True)
            for name in seen
        }

    def apply(self, scene: Scene, link: Link, plan: Plan) -> Plan:
        """Empty it on one host."""
        before, after = memory.drop(link, password(scene, link.host.name))
        return replace(plan, message=f"MemFree {show_memory(before)} -> {show_memory(after)}")
