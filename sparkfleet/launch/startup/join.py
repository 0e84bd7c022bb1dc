"""Wait until Ray has all nodes of the cluster."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Any

from sparkfleet.commands import build_script_command
from sparkfleet.errors import LaunchError, UnreachableError
from sparkfleet.launch.host.deployment_record import DeploymentRecord
from sparkfleet.remote.answers import parse_answer
from sparkfleet.remote.channel import ChannelTimeoutError, Result
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.multiplexer import LOST

MARGIN = 60.0  # seconds to import Ray, in addition to the join timeout


def wait_for_ray_nodes(
    connection: Connection, about: DeploymentRecord, *, timeout: float, margin: float = MARGIN
) -> dict[str, float]:
    """Return Ray's nodes, address -> GPUs, once all have joined or after `timeout` seconds.

    `connection` is to the head, whose engine's own Python runs the query; importing Ray may take
    `margin` seconds more. Raises CommandError.
    """
    limit = timeout + margin
    return connection.query(
        "deployment/ray_nodes",
        _build_nodes_request(about, timeout),
        _parse_nodes,
        timeout=limit,
        python=about.python,
    )


def _parse_nodes(answer: Mapping[str, Any]) -> dict[str, float]:
    return {str(address): float(gpus) for address, gpus in answer["nodes"].items()}


class RayNodesQuery:
    """The same query in the background, so that the caller can watch Ray's processes.

    If another program holds Ray's port, the query never returns by itself. It is repeated
    where its connection breaks, once the watch has connected again.
    """

    def __init__(self, connection: Connection, about: DeploymentRecord, *, timeout: float) -> None:
        self._command = build_script_command(
            "deployment/ray_nodes", _build_nodes_request(about, timeout), python=about.python
        )
        self._connection = connection
        self._limit = timeout + MARGIN
        self._deadline = time.monotonic() + self._limit
        self._broken = False
        self.answered = False
        self._open()

    def _open(self) -> None:
        self._channel = self._connection.open(self._command)
        self._channel.feed([self._command.stdin])
        self._output = b""
        self._broken = False

    def is_finished(self) -> bool:
        """Return whether the query has answered or timed out."""
        if self._broken and not self._connection.is_lost():
            with contextlib.suppress(UnreachableError):  # it breaks just now
                self._open()
        try:
            while not self._broken and (piece := self._channel.receive(time.monotonic())):
                self._output += piece
        except ChannelTimeoutError:
            return time.monotonic() > self._deadline
        self._broken = self._broken or self._channel.wait() == LOST
        self.answered = not self._broken
        return self.answered or time.monotonic() > self._deadline

    def nodes(self) -> dict[str, float]:
        """Return Ray's nodes, address -> GPUs; raises CommandError, and LaunchError for silence."""
        if not self.answered:
            raise LaunchError(
                f"Ray did not list its nodes within {self._limit:.0f} s",
                host=self._connection.host.name,
                hint="does another program hold ray_port? see Ray's log: {task:cluster.logs}",
            )
        channel = self._channel
        result = Result(returncode=channel.wait(), stdout=self._output, stderr=channel.stderr)
        program = "deployment/ray_nodes"
        answer = self._connection.parse_answer(program, result)
        return parse_answer(_parse_nodes, answer, self._connection.host.name, program)

    def close(self) -> None:
        """Abort the query."""
        self._channel.close()


def _build_nodes_request(about: DeploymentRecord, timeout: float) -> dict[str, Any]:
    return {
        "address": about.ray_address,
        "token_file": about.ray_token_file,
        "nodes": list(about.ray_nodes.values()),
        "timeout": timeout,
    }


def check_ray_nodes(nodes: Mapping[str, float], hosts: Mapping[str, str]) -> str:
    """Return the problem as a sentence, or "" if every host is a node with a GPU.

    `nodes` is Ray's table, address -> GPUs; `hosts` is host name -> fabric address. Missing nodes
    and missing GPUs have different messages, since their causes differ.
    """
    absent = [f"{name} ({address})" for name, address in hosts.items() if address not in nodes]
    if absent:
        have = ", ".join(map(_format_ray_node, nodes.items())) or "no nodes"
        return f"{', '.join(absent)} did not join Ray; its nodes: {have}"
    bare = [f"{name} ({address})" for name, address in hosts.items() if nodes[address] < 1]
    if bare:
        return f"{', '.join(bare)} joined Ray without a GPU"
    return ""


def _format_ray_node(node: tuple[str, float]) -> str:
    address, gpus = node
    return f"{address} ({gpus:g} GPU{'' if gpus == 1 else 's'})"
