"""Inventories: the files that Ansible reads, with its answers and fewer surprises."""

from sparkfleet.inventory.clusters import choose_cluster
from sparkfleet.inventory.listing import (
    dump_host_vars,
    dump_inventory,
    explain_host_variable,
    format_group_graph,
)
from sparkfleet.inventory.loading import load_inventory
from sparkfleet.inventory.patterns import select_hosts
from sparkfleet.inventory.rendering import build_host_context

__all__ = [
    "build_host_context",
    "choose_cluster",
    "dump_host_vars",
    "dump_inventory",
    "explain_host_variable",
    "format_group_graph",
    "load_inventory",
    "select_hosts",
]
