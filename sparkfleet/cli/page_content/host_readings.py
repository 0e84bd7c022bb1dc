"""The readings of one host for the part of the page that changes rarely."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparkfleet import facts
from sparkfleet.actions.run.receipt import RECEIPT
from sparkfleet.cli.context import ClusterSession
from sparkfleet.doctor.logs import LogBundle, LogFile
from sparkfleet.facts import HostFacts
from sparkfleet.launch.endpoint import bench_history
from sparkfleet.launch.host.processes import locate_deployment, read_logs
from sparkfleet.links import receipt
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection

LOG_LINES = 400  # of each log that the doctor reads


@dataclass(frozen=True, slots=True, kw_only=True)
class HostBackground:
    """Facts of a host, its logs by role, and files of the cluster by name, "" if absent."""

    facts: HostFacts
    logs: Mapping[str, str]
    files: Mapping[str, str]


def read_host_background(session: ClusterSession, connection: Connection) -> HostBackground:
    """Return the readings of one host; raises CommandError."""
    settings = Settings(host=connection.host)
    cluster = session.context.cluster.name
    names = (receipt.FILE, bench_history.FILE, RECEIPT)
    paths = {name: f"{settings.cluster_dir}/{cluster}/{name}" for name in names}
    found = facts.gather_facts(
        connection, weights_dir=settings.text("weights_dir"), files=list(paths.values())
    )
    logs = read_logs(connection, locate_deployment(settings, cluster), lines=LOG_LINES)
    files = {name: found.read(path).text for name, path in paths.items()}
    return HostBackground(facts=found, logs=logs, files=files)


def collect_host_logs(readings: Mapping[str, HostBackground]) -> LogBundle:
    """Return the logs of all hosts, for the doctor."""
    return LogBundle(
        logs=tuple(
            LogFile(name=f"{name}-{role}.log", host=name, text=text)
            for name, reading in readings.items()
            for role, text in reading.logs.items()
        )
    )
