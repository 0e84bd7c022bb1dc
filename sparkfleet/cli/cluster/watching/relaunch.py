"""Starts a broken cluster again for `cluster.watch`, by the transaction of `cluster.up`."""

from __future__ import annotations

import os
import time
from pathlib import Path

from sparkfleet.actions.run.receipt import RECEIPT
from sparkfleet.cli.cluster.watching.own_starts import read_own_start
from sparkfleet.cli.command import print_error
from sparkfleet.cli.context import ClusterSession
from sparkfleet.cli.doctor.after_failure import summarize_diagnosis
from sparkfleet.cli.options import Options
from sparkfleet.cli.playbook.run_events import WATCH
from sparkfleet.cli.playbook.run_playbook import run_playbook
from sparkfleet.doctor.diagnosis import diagnose_logs
from sparkfleet.doctor.logs import RUN_LOG, load_log_bundle
from sparkfleet.errors import LockHeldError, SparkfleetError
from sparkfleet.launch.host.processes import locate_deployment, read_file, save_logs
from sparkfleet.launch.watching.events import ClusterEvent, EventKind
from sparkfleet.launch.watching.start_request import (
    StartRequest,
    choose_start_request,
    parse_start_request,
)
from sparkfleet.recipes.settings import Settings
from sparkfleet.report import output_streams
from sparkfleet.report.log import create_log_folder


def save_cluster_logs(session: ClusterSession, reason: str) -> tuple[Path, str]:
    """Save the logs of all hosts on this machine; return their folder, and the doctor's cause.

    A host that does not answer has no logs there. Raises UsageError where nothing can be written.
    """
    folder = create_log_folder(time.strftime("%Y%m%d-%H%M%S") + f"-{os.getpid()}-watch")
    with output_streams.open_stream(folder / RUN_LOG, required=False) as file:
        file.write(f"{WATCH}  {reason}\n")
    name = session.context.cluster.name
    session.pool.map(
        lambda connection: save_logs(
            connection, locate_deployment(Settings(host=connection.host), name), folder
        ),
        session.context.cluster.hosts,
    )
    return folder, summarize_diagnosis(diagnose_logs(load_log_bundle(folder)))


def read_start_request(session: ClusterSession) -> StartRequest:
    """Return how the cluster was last started; raises LaunchError where it is not known."""
    cluster = session.context.cluster
    location = locate_deployment(Settings(host=cluster.head), cluster.name)
    receipt = parse_start_request(read_file(session.pool.connect(cluster.head), location, RECEIPT))
    return choose_start_request(
        receipt,
        read_own_start(cluster.name),
        host=cluster.head.name,
        local=cluster.head.get("ansible_connection") == "local",
    )


def relaunch_cluster(options: Options, request: StartRequest) -> tuple[int, ClusterEvent | None]:
    """Start the cluster as `request` says; return the exit code, and the event of a refusal.

    A run that was not refused records its own event, while it holds the lock.
    """
    try:
        return run_playbook("cluster-up", build_start_options(options, request)), None
    except LockHeldError as error:
        print_error(error)
        text = f"another run is changing the cluster: {error.message}"
        return error.exit_code, ClusterEvent(kind=EventKind.RELAUNCH_SKIPPED, text=text)
    except SparkfleetError as error:
        print_error(error)
        text = "; ".join(problem.message for problem in error.problems)
        return error.exit_code, ClusterEvent(kind=EventKind.RELAUNCH_FAILED, text=text)


def build_start_options(options: Options, request: StartRequest) -> Options:
    """Return the options of `cluster.up` that `request` says, with this inventory."""
    path = request.recipe_file
    return Options(
        task=WATCH,
        inventory=options.inventory,
        cluster=options.cluster,
        forks=options.forks,
        recipe=path if path and Path(path).is_file() else request.recipe,
        tp=request.tp,
        pp=request.pp,
        dp=request.dp,
        limit=",".join(request.hosts) or None,
        variables={**options.variables, **request.given},
        allow_degraded=request.degraded,
        yes=True,
        offers_size=True,
    )
