"""The status of a cluster at one moment: its health, and what each host runs and uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparkfleet.errors import SparkfleetError
from sparkfleet.launch.endpoint.health.judge import OK
from sparkfleet.launch.endpoint.health.observation import HostLook
from sparkfleet.launch.endpoint.health.probing import look_at_host
from sparkfleet.launch.endpoint.health.state import ClusterHealth
from sparkfleet.launch.host.processes import locate_deployment
from sparkfleet.launch.host.survey import Survey, survey_host
from sparkfleet.launch.host.vitals import Vitals, query_vitals
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.vllm.metrics import ServerLoad, compute_load


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStatus:
    """The status of one host."""

    survey: Survey
    vitals: Vitals
    look: HostLook

    @property
    def state(self) -> str:
        """The state of the host, in a word."""
        survey = self.survey
        if survey.interrupted:
            return "starting" if self.vitals.busy else "interrupted"
        if survey.hash is None:
            return "orphans" if survey.running_summary else "stopped"
        return "broken" if survey.dead else "running"

    @property
    def healthy(self) -> bool | None:
        """Whether `/health` answers 200; None if the endpoint is on another host."""
        return None if self.look.endpoint is None else self.look.endpoint.status == OK

    @property
    def load(self) -> ServerLoad | None:
        """The load of the endpoint during the look."""
        samples = self.look.endpoint.samples if self.look.endpoint else ()
        return compute_load(samples[0], samples[-1]) if len(samples) > 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """The cluster at one moment: the verdict, and the status of each host or why it is unknown.

    `nodes` are Ray's, address -> GPUs, None where unknown.
    """

    health: ClusterHealth
    nodes: Mapping[str, float] | None
    statuses: Mapping[str, HostStatus]
    errors: Mapping[str, SparkfleetError]
    notes: tuple[str, ...]


def query_host_status(
    connection: Connection, settings: Settings, cluster: str, look: HostLook | None = None
) -> HostStatus:
    """Return the status of a host; with `look`, one of a moment ago, its health is not read again.

    Raises CommandError, and UnreachableError for a host that does not answer.
    """
    survey = survey_host(connection, settings, cluster)
    vitals = query_vitals(
        connection,
        locate_deployment(settings, cluster),
        url=None,
        pids=tuple(survey.pids.values()),
    )
    look = look or look_at_host(connection, settings, cluster)
    return HostStatus(survey=survey, vitals=vitals, look=look)
