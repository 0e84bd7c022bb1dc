"""`join_gate`: wait for N distinct Ray nodes with a GPU each before the start."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.deploy.start_action import locate_files
from sparkfleet.actions.run_context import RunContext
from sparkfleet.errors import LaunchError
from sparkfleet.launch.host import processes
from sparkfleet.launch.startup.join import RayNodesQuery, check_ray_nodes
from sparkfleet.launch.startup.start_watch import Watch, WatchTarget, create_rank_tracker
from sparkfleet.remote.connection import Connection
from sparkfleet.report.events import Progress

TICK = 0.1  # seconds between two looks: Ray's nodes join within a few seconds


class JoinGate(Action[NoArgs]):
    """Wait, for a bounded time, until Ray has every node of the cluster and a GPU on each.

    Two GPUs on one node, or two nodes with one GPU between them, are not a group. Ray is watched on
    every host meanwhile: if it dies on one, the wait stops at once and shows the end of its log.
    """

    name = "join_gate"
    requires = ("launch",)
    after = ("start_ray",)

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Watch only if this run has started Ray."""
        launch = run.launch
        if not launch.reason:
            return dict.fromkeys(inspected, Plan())
        watch = Watch(create_rank_tracker(launch.about[run.cluster.head.name]), lambda _: None)
        return dict.fromkeys(inspected, Plan(work=watch))

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Query the head with the engine's own Python, and watch all hosts."""
        launch = run.launch
        watch = plan.work
        target = WatchTarget(
            location=locate_files(run, connection.host),
            folder=launch.surveys[connection.host.name].folder,
            roles=("ray",),
            url=None,
            limit=math.inf,
            tick=TICK,
        )
        about = launch.about[connection.host.name]
        if connection.host.name != run.cluster.head.name:
            watch.follow(connection, target)
            return Plan()
        run.report(
            Progress(
                host=connection.host.name, text=f"waiting for {len(about.ray_nodes)} Ray nodes"
            )
        )
        try:
            query = connection.repeat_after_loss(
                lambda: RayNodesQuery(connection, about, timeout=about.join_timeout)
            )
        except BaseException:
            watch.end()  # or the other hosts would wait for ever
            raise
        try:
            if watch.follow(connection, target, done=query.is_finished) is None:
                return Plan()
            return self._check_nodes(run, connection, query.nodes(), about.ray_nodes)
        finally:
            query.close()

    def _check_nodes(
        self,
        run: RunContext,
        connection: Connection,
        nodes: Mapping[str, float],
        expected: Mapping[str, str],
    ) -> Plan:
        if missing := check_ray_nodes(nodes, expected):
            raise LaunchError(missing, host=connection.host.name, hint=self._tail(run, connection))
        text = f"{len(expected)} nodes, {len(expected)} GPUs: " + ", ".join(
            f"{name} {address}" for name, address in expected.items()
        )
        return Plan(message=text, data={"nodes": nodes})

    def _tail(self, run: RunContext, connection: Connection) -> str:
        tail = processes.read_tail(connection, locate_files(run, connection.host), "ray")
        return f"the end of Ray's log on {connection.host.name}:\n{tail}"
