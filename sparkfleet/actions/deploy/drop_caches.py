"""`drop_caches`: empty the page cache right before a start, if the inventory asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.builtin.become import find_sudo_password
from sparkfleet.actions.run_context import RunContext
from sparkfleet.launch.preflight import page_cache
from sparkfleet.model import Change
from sparkfleet.quantities import format_memory
from sparkfleet.remote.connection import Connection


class DropCaches(Action[NoArgs]):
    """Empty the page cache of every host that has `drop_caches: true`, before a start.

    vLLM counts the page cache as used memory. Requires `sudo`.
    """

    name = "drop_caches"
    requires = ("launch",)
    after = ("replace_deployment",)

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Empty it where the inventory asks for it."""
        starts = bool(run.launch.reason)
        enabled = {host.name: run.settings(host).value("drop_caches") for host in run.cluster.hosts}
        change = Change(summary="empty the page cache")
        return {
            name: Plan(changes=(change,)) if enabled[name] and starts else Plan(skip=True)
            for name in inspected
        }

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Empty it on one host."""
        before, after = page_cache.drop_caches(
            connection, find_sudo_password(run, connection.host.name)
        )
        return replace(plan, message=f"MemFree {format_memory(before)} -> {format_memory(after)}")
