"""The model that a cluster serves now, as recorded on its hosts, not in the inventory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkfleet.errors import LaunchError
from sparkfleet.launch.endpoint.endpoint import Endpoint, find_recorded_endpoint
from sparkfleet.launch.endpoint.listening import build_client_url
from sparkfleet.launch.host.deployment_record import DeploymentRecord
from sparkfleet.launch.host.survey import Survey, split_serve_script
from sparkfleet.model import Host
from sparkfleet.vllm.options import read_command_line


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A running deployment: its head, endpoint, metadata, and options of `vllm serve`."""

    head: Host
    endpoint: Endpoint
    about: DeploymentRecord
    options: Mapping[str, Any]

    @property
    def url(self) -> str:
        """The base URL for clients."""
        return build_client_url(self.about.listens_on, self.about.port, self.head.address)


def find_served_model(hosts: Mapping[str, Host], surveys: Mapping[str, Survey]) -> ServedModel:
    """Return the model that the hosts serve together.

    Raises LaunchError if there is none, and for a start script that cannot be read.
    """
    for name, survey in surveys.items():
        about = survey.about
        if survey.hash is None or about.hosts[:1] != (name,):
            continue
        if survey.dead:
            raise LaunchError(
                f"{', '.join(survey.dead)} died on {name} since cluster.up",
                host=name,
                hint="check its log: {task:cluster.logs}; start it again: {task:cluster.up}",
            )
        endpoint = find_recorded_endpoint(about, survey.folder)
        options = read_command_line(split_serve_script(survey, name)).by_name()
        return ServedModel(head=hosts[name], endpoint=endpoint, about=about, options=options)
    raise LaunchError(
        "the cluster serves no model",
        host=next(iter(hosts)),
        hint="start one: {task:cluster.up}; show processes: {task:cluster.status}",
    )
