"""The variables that every host of a run begins with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sparkfleet.actions.host_variables import HostVariables
from sparkfleet.actions.scene import Scene
from sparkfleet.inventory.rendering import host_context
from sparkfleet.playbook.syntax import Assigned
from sparkfleet.recipes.settings import Settings, overlay


def variables(scene: Scene, plays: Sequence[Assigned]) -> dict[str, HostVariables]:
    """Return the variables of every host that a template can name, by host name."""
    playing = {host.name: host for one in plays for host in one.hosts}
    serving = {host.name: host for host in scene.cluster.hosts}
    hosts = {**scene.inventory.hosts, **playing, **serving}
    inventory = replace(scene.inventory, hosts=hosts)
    found: dict[str, HostVariables] = {}
    run = {
        "ansible_check_mode": scene.options.check,
        "hostvars": found,
        "nodes": scene.options.nodes,
        "pp": scene.options.pp,
        "tp": scene.options.tp,
    }
    for name, host in hosts.items():
        own = host if name in serving else overlay(host, scene.recipe)
        ranked = {"rank": scene.cluster.rank(name)} if name in serving else {}
        settings = Settings(host=own, given=scene.given)
        found[name] = HostVariables(settings, host_context(inventory, name), {**run, **ranked})
    return found
