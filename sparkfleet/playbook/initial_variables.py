"""The initial variables of every host of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sparkfleet.actions.host_variables import HostVariables
from sparkfleet.actions.run_context import RunContext
from sparkfleet.inventory.rendering import build_host_context
from sparkfleet.playbook.syntax import AssignedPlay
from sparkfleet.recipes.settings import Settings, overlay_recipe


def build_variables(run: RunContext, plays: Sequence[AssignedPlay]) -> dict[str, HostVariables]:
    """Return the variables of every host that templates can refer to, by host name."""
    playing = {host.name: host for assigned in plays for host in assigned.hosts}
    serving = {host.name: host for host in run.cluster.hosts}
    hosts = {**run.inventory.hosts, **playing, **serving}
    inventory = replace(run.inventory, hosts=hosts)
    variables: dict[str, HostVariables] = {}
    run_variables = {
        "ansible_check_mode": run.options.check,
        "dp": run.options.dp,
        "hostvars": variables,
        "nodes": run.options.nodes,
        "pp": run.options.pp,
        "tp": run.options.tp,
    }
    for name, host in hosts.items():
        layered = host if name in serving else overlay_recipe(host, run.recipe)
        ranked = {"rank": run.cluster.rank(name)} if name in serving else {}
        settings = Settings(host=layered, given=run.given)
        variables[name] = HostVariables(
            settings, build_host_context(inventory, name), {**run_variables, **ranked}
        )
    return variables
