"""The gateway in `cluster.watch`: it gets each verdict, and is started again if it ended."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from sparkfleet.actions.run.lock import fetch_lock_holder
from sparkfleet.inventory.clusters import read_cluster_definitions
from sparkfleet.inventory.gateway import Gateway, read_gateway
from sparkfleet.launch.endpoint.health.state import ClusterHealth
from sparkfleet.launch.gateway.clusters import REFUSED
from sparkfleet.launch.gateway.host import (
    BackendVerdict,
    GatewayLook,
    look_at_gateway,
    set_verdicts,
    start_gateway,
)
from sparkfleet.launch.gateway.rendering import CONFIG
from sparkfleet.launch.host.deployment_record import DeploymentRecord
from sparkfleet.model import Inventory
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import ConnectionPool
from sparkfleet.variables.gateway import GATEWAY

HASH = re.compile(r"^ *setenv SPARKFLEET_GATEWAY ([0-9a-f]{16})$", re.MULTILINE)


@dataclass(slots=True, kw_only=True)
class GatewayWatch:
    """The part of the watcher of a cluster that follows the gateway of its inventory.

    `sent` is the last verdict that the gateway got, with the hash of what it ran then: a gateway
    that was reloaded gets it again.
    """

    inventory: Inventory
    cluster: str
    sent: tuple[str, str] = field(default=("", ""))

    def follow(self, pool: ConnectionPool, health: ClusterHealth) -> Iterator[str]:
        """Set at the gateway whether the cluster gets requests; yield what was done.

        Raises SparkfleetError where its host does not answer, or it cannot be started.
        """
        gateway = read_gateway(self.inventory)
        if gateway is None:
            return
        connection = pool.connect(gateway.host)
        settings = Settings(host=gateway.host)
        look = look_at_gateway(connection, settings)
        if not look.runs:
            yield from self._start_again(connection, gateway, look)
            return
        verdict = (str(health), look.hash)
        if verdict == self.sent:
            return
        admitted = health.state not in REFUSED
        servers = [server for server in look.servers if server.name == self.cluster]
        set_verdicts(
            connection,
            settings,
            [
                BackendVerdict(
                    backend=server.backend,
                    reason=f"cluster {self.cluster} is {health}",
                    servers={self.cluster: admitted},
                )
                for server in servers
            ],
        )
        if servers and self.sent[0] and not admitted:
            yield f"the gateway no longer sends requests to {self.cluster}"
        self.sent = verdict

    def _start_again(
        self, connection: Connection, gateway: Gateway, look: GatewayLook
    ) -> Iterator[str]:
        """Start a gateway that ended, with the files on its host; one watcher of all does it."""
        first = next(iter(read_cluster_definitions(self.inventory)))
        found = HASH.search(look.files.get(CONFIG) or "")
        if not look.recorded or found is None or self.cluster != first:
            return
        settings = Settings(host=gateway.host)
        if fetch_lock_holder(connection, settings, GATEWAY):
            return
        about = DeploymentRecord(
            recipe=GATEWAY,
            hosts=(gateway.host.name,),
            listens_on=gateway.settings.bind,
            port=gateway.settings.port,
        )
        start_gateway(connection, settings, found[1], about)
        yield f"the gateway was not running on {gateway.host.name}, and was started again"
