"""Whether Ray has the nodes that the cluster needs."""

from __future__ import annotations

from collections.abc import Mapping

from sparkfleet.launch.transaction import About
from sparkfleet.remote.link import Link

MARGIN = 60.0  # s for importing Ray, beyond the time that workers get to join


def wait_for_nodes(link: Link, about: About, *, timeout: float) -> dict[str, float]:
    """Return Ray's nodes, address -> GPUs, once all are there or `timeout` seconds have passed.

    `link` leads to the head, whose engine's own Python asks.
    """
    request = {
        "address": about.ray_address,
        "nodes": list(about.ray_nodes.values()),
        "timeout": timeout,
    }
    limit = timeout + MARGIN
    answer = link.ask("ray_nodes", request, timeout=limit, python=about.python)
    nodes: dict[str, float] = answer["nodes"]
    return nodes


def judge(nodes: Mapping[str, float], wanted: Mapping[str, str]) -> str:
    """Return what is missing, as a sentence, or "" if every host is a node with a GPU.

    `nodes` is Ray's table, address -> GPUs; `wanted` is host name -> fabric address. Too few nodes
    and too few GPUs are told apart, since their causes differ (case C23).
    """
    absent = [f"{name} ({address})" for name, address in wanted.items() if address not in nodes]
    if absent:
        have = ", ".join(map(_shown, nodes.items())) or "no node at all"
        return f"{', '.join(absent)} did not join Ray, which has {have}"
    bare = [f"{name} ({address})" for name, address in wanted.items() if nodes[address] < 1]
    if bare:
        return f"{', '.join(bare)} joined Ray without a GPU"
    return ""


def _shown(node: tuple[str, float]) -> str:
    address, gpus = node
    return f"{address} ({gpus:g} GPU{'' if gpus == 1 else 's'})"
