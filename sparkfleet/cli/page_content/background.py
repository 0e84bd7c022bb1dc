"""The part of the page's content that changes rarely, read from the hosts and this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sparkfleet.actions.run.receipt import RECEIPT
from sparkfleet.cli.context import ClusterSession
from sparkfleet.cli.page_content.deployment_values import find_served, list_served_settings
from sparkfleet.cli.page_content.host_readings import (
    HostBackground,
    collect_host_logs,
    read_host_background,
)
from sparkfleet.cli.page_content.link_map import explain_links, map_links
from sparkfleet.doctor.diagnosis import diagnose_logs
from sparkfleet.errors import SparkfleetError
from sparkfleet.launch.endpoint import bench_history
from sparkfleet.launch.endpoint.health.status import ClusterStatus
from sparkfleet.launch.watching.start_request import parse_start_request
from sparkfleet.links import receipt
from sparkfleet.page.content import Background
from sparkfleet.recipes.explanation import Setting
from sparkfleet.report.task_durations import read_durations


def collect_background(session: ClusterSession, status: ClusterStatus) -> Background:
    """Return links, deployment, benchmarks, timings, versions and findings; never raises.

    What could not be read is in `missing`, with the reason.
    """
    hosts = session.context.cluster.hosts
    answers = session.pool.map(lambda connection: read_host_background(session, connection), hosts)
    readings = answers.values
    found = {name: reading.facts for name, reading in readings.items()}
    texts = {name: reading.files[receipt.FILE] for name, reading in readings.items()}
    missing = dict(_explain_missing(answers.errors))
    served = find_served(session.context, status)
    head = readings.get(session.context.cluster.head.name)
    written = parse_start_request(head.files[RECEIPT] if head else None)
    settings: tuple[Setting, ...] = ()
    try:
        settings = list_served_settings(session.context, written, served)
    except SparkfleetError as error:
        missing["settings"] = "; ".join(str(problem) for problem in error.problems)
    return Background(
        links=map_links(hosts, found, texts),
        served=served,
        settings=settings,
        durations=read_durations(),
        bench=bench_history.parse_bench_history(head.files[bench_history.FILE] if head else None),
        versions={name: _list_versions(name, readings[name], status) for name in readings},
        diagnosis=diagnose_logs(collect_host_logs(readings)) if readings else None,
        missing={**dict(explain_links(hosts, found)), **missing},
    )


def _explain_missing(errors: Mapping[str, SparkfleetError]) -> Iterator[tuple[str, str]]:
    if errors:
        reason = "; ".join(f"{name}: {error.message}" for name, error in errors.items())
        for section in ("versions", "findings", "links"):
            yield section, f"Not read: {reason}"


def _list_versions(name: str, reading: HostBackground, status: ClusterStatus) -> Mapping[str, str]:
    found = reading.facts
    survey = status.statuses[name].survey if name in status.statuses else None
    probe = survey.probe if survey else None
    return {
        "DGX OS": found.release.version,
        "kernel": found.system.kernel,
        "driver": found.driver,
        "Python": found.system.python,
        "image": survey.image_name if survey else "",
        **(dict(probe.packages) if probe else {}),
    }
