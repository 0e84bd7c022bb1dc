"""`select_fabric`: the fabric addresses of the cluster, without a check of the links."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet import links
from sparkfleet.actions.action import Action, NoArgs, Plan, Planned
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import RunState
from sparkfleet.command_name import name_command
from sparkfleet.errors import GateError


class SelectFabric(Action[NoArgs]):
    """Provide the fabric addresses that the facts give. Only for runs that start nothing."""

    name = "select_fabric"
    requires = ("facts",)
    provides = ("fabric",)

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Planned:
        """Provide the fabric; raises GateError for a host without an address in the group."""
        fabric = links.select_fabric(run.facts, run.cluster.hosts)
        for name in inspected:
            if fabric.address(name) is None:
                raise GateError(
                    "no fabric address that all hosts of the group reach",
                    host=name,
                    hint=f"find the cause with {name_command('links.verify')}",
                )
        return Planned(plans={name: Plan() for name in inspected}, provided=RunState(fabric=fabric))
