"""Inventories: the files that Ansible reads, with its answers and fewer surprises."""

from sparkfleet.inventory.clusters import cluster
from sparkfleet.inventory.listing import dump, explain, graph, host_vars
from sparkfleet.inventory.loading import load
from sparkfleet.inventory.patterns import select
from sparkfleet.inventory.rendering import host_context

__all__ = [
    "cluster",
    "dump",
    "explain",
    "graph",
    "host_context",
    "host_vars",
    "load",
    "select",
]
