"""Whether Ray has the nodes that the cluster needs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from sparkfleet.commands import build_script_command
from sparkfleet.errors import LaunchError
from sparkfleet.launch.host.deployment_record import DeploymentMetadata
from sparkfleet.remote.channel import ChannelTimeoutError, Result
from sparkfleet.remote.connection import Connection

MARGIN = 60.0  # s for importing Ray, beyond the time that workers get to join


def wait_for_ray_nodes(
    connection: Connection, about: DeploymentMetadata, *, timeout: float
) -> dict[str, float]:
    """Return Ray's nodes, address -> GPUs, once all are there or `timeout` seconds have passed.

    `link` leads to the head, whose engine's own Python asks.
    """
    limit = timeout + MARGIN
    answer = connection.run_program(
        "deployment/ray_nodes",
        _build_nodes_request(about, timeout),
        timeout=limit,
        python=about.python,
    )
    nodes: dict[str, float] = answer["nodes"]
    return nodes


class RayNodesQuery:
    """The same, asked without waiting: whoever waits watches Ray's processes meanwhile.

    Where Ray's port is held by a stranger, the program waits for an answer for ever.
    """

    def __init__(
        self, connection: Connection, about: DeploymentMetadata, *, timeout: float
    ) -> None:
        command = build_script_command(
            "deployment/ray_nodes", _build_nodes_request(about, timeout), python=about.python
        )
        self._connection, self._channel = connection, connection.open(command)
        self._channel.feed([command.stdin])
        self._deadline = time.monotonic() + timeout + MARGIN
        self._output = b""
        self.answered = False

    def is_finished(self) -> bool:
        """Return whether the answer is here, or will never be."""
        try:
            while piece := self._channel.receive(time.monotonic()):
                self._output += piece
        except ChannelTimeoutError:
            return time.monotonic() > self._deadline
        self.answered = True
        return True

    def nodes(self) -> dict[str, float]:
        """Return Ray's nodes, address -> GPUs; raises CommandError, and LaunchError for silence."""
        if not self.answered:
            raise LaunchError("Ray does not tell its nodes", host=self._connection.host.name)
        channel = self._channel
        result = Result(returncode=channel.wait(), stdout=self._output, stderr=channel.stderr)
        nodes: dict[str, float] = self._connection.parse_answer("deployment/ray_nodes", result)[
            "nodes"
        ]
        return nodes

    def close(self) -> None:
        """Drop it."""
        self._channel.close()


def _build_nodes_request(about: DeploymentMetadata, timeout: float) -> dict[str, Any]:
    return {
        "address": about.ray_address,
        "nodes": list(about.ray_nodes.values()),
        "timeout": timeout,
    }


def check_ray_nodes(nodes: Mapping[str, float], hosts: Mapping[str, str]) -> str:
    """Return what is missing, as a sentence, or "" if every host is a node with a GPU.

    `nodes` is Ray's table, address -> GPUs; `wanted` is host name -> fabric address. Too few nodes
    and too few GPUs are told apart, since their causes differ (case C23).
    """
    absent = [f"{name} ({address})" for name, address in hosts.items() if address not in nodes]
    if absent:
        have = ", ".join(map(_format_ray_node, nodes.items())) or "no node at all"
        return f"{', '.join(absent)} did not join Ray, which has {have}"
    bare = [f"{name} ({address})" for name, address in hosts.items() if nodes[address] < 1]
    if bare:
        return f"{', '.join(bare)} joined Ray without a GPU"
    return ""


def _format_ray_node(node: tuple[str, float]) -> str:
    address, gpus = node
    return f"{address} ({gpus:g} GPU{'' if gpus == 1 else 's'})"
