"""Collects from hosts for `doctor --bundle`: facts, rendered files, versions, logs, events."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from sparkfleet import facts
from sparkfleet.cli.cluster.watching.events import fetch_event_log
from sparkfleet.cli.context import ClusterSession
from sparkfleet.cli.hosts.facts import serialize_facts
from sparkfleet.errors import SparkfleetError
from sparkfleet.inventory.gateway import read_gateway
from sparkfleet.launch.deployment.secrets import mask_secrets
from sparkfleet.launch.gateway.host import locate_gateway, look_at_gateway
from sparkfleet.launch.gateway.rendering import mask_gateway_file
from sparkfleet.launch.host.processes import locate_deployment, read_logs
from sparkfleet.launch.host.survey import PACKAGES, survey_host
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection

NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,100}")

Files = dict[str, str]  # name in the archive -> text


def collect_from_hosts(session: ClusterSession) -> Files:
    """Return facts, files, versions and logs of each host, and the events of the cluster."""
    context = session.context
    answers = session.pool.map(
        lambda connection: _collect_host(session, connection), context.cluster.hosts
    )
    files: Files = {}
    for found in answers.values.values():
        files |= found
    for name, error in answers.errors.items():
        files[f"hosts/{name}/error.txt"] = f"{error.message}\n"
    files |= _collect_gateway(session)
    try:
        events = fetch_event_log(session).events
    except SparkfleetError as error:
        return {**files, "events.txt": f"{error.message}\n"}
    return {**files, "events.jsonl": "".join(f"{json.dumps(event.data())}\n" for event in events)}


def _collect_gateway(session: ClusterSession) -> Files:
    """Return the files and the log of the gateway, if the inventory has one."""
    gateway = read_gateway(session.context.inventory)
    if gateway is None:
        return {}
    settings = Settings(host=gateway.host)
    try:
        connection = session.pool.connect(gateway.host)
        look = look_at_gateway(connection, settings)
        logs = read_logs(connection, locate_gateway(settings))
    except SparkfleetError as error:
        return {"gateway/error.txt": f"{error.message}\n"}
    files = {name: mask_gateway_file(name, text) or "" for name, text in look.files.items()}
    files |= dict(_name_logs(logs))
    return {f"gateway/{name}": text for name, text in files.items() if text}


def _collect_host(session: ClusterSession, connection: Connection) -> Files:
    settings = Settings(host=connection.host)
    cluster = session.context.cluster.name
    survey = survey_host(connection, settings, cluster)
    seen = facts.gather_facts(connection, weights_dir=settings.text("weights_dir"))
    engine = {name: (survey.engine or {}).get(name) for name in PACKAGES}
    versions = {**engine, "image": survey.image_name, "deployment": survey.hash}
    place = f"hosts/{connection.host.name}"
    files = {
        "facts.json": json.dumps(serialize_facts(seen), indent=1, default=str),
        "versions.json": json.dumps(versions, indent=1, default=str),
    }
    files |= {f"rendered/{name}": mask_secrets(text) or "" for name, text in survey.files.items()}
    logs = read_logs(connection, locate_deployment(settings, cluster))
    files |= dict(_name_logs(logs))
    return {f"{place}/{name}": text for name, text in files.items() if text}


def _name_logs(logs: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the logs whose role, which a host chose, is a plain name."""
    for role, text in logs.items():
        if NAME.fullmatch(role):
            yield f"logs/{role}.log", text
