"""What the launching actions share: the deployment that is wanted, and how far the run is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from sparkfleet.actions.action import Action, Plan
from sparkfleet.actions.run import lock
from sparkfleet.actions.run_context import RunContext
from sparkfleet.launch.deployment.deployment import Deployment
from sparkfleet.launch.endpoint.endpoint import Endpoint
from sparkfleet.launch.engines.engine import Engine
from sparkfleet.launch.host import processes
from sparkfleet.launch.host.deployment_record import STATE, DeploymentMetadata, RunProgress, RunStep
from sparkfleet.launch.host.survey import Survey
from sparkfleet.model import EMPTY, Host
from sparkfleet.remote.connection import Connection

A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchState:
    """The wanted deployment, what runs now, and why it has to be started; `reason` "" if not."""

    deployment: Deployment
    engines: Mapping[str, Engine]
    surveys: Mapping[str, Survey]
    reason: str
    about: Mapping[str, DeploymentMetadata] = field(default_factory=lambda: EMPTY)  # by host


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """What this run has begun to replace, by host; empty once it is finished or taken back."""

    states: Mapping[str, RunProgress]


class StartAction(Action[A]):
    """An action that starts processes; its undo saves their logs and ends them."""

    def salvage(self, run: RunContext, connection: Connection) -> None:
        """Save every log of the cluster on the host, unless another action has done so."""
        if not any(run.log_dir.glob(f"{connection.host.name}-*.log")):
            processes.save_logs(connection, locate_files(run, connection.host), run.log_dir)

    def undo(self, run: RunContext, connection: Connection, plan: Plan) -> None:
        """End the processes of the cluster on the host."""
        processes.stop_processes(connection, locate_files(run, connection.host))


def locate_files(run: RunContext, host: Host) -> dict[str, str]:
    """Return where the cluster's files are on `host`, for a request."""
    return processes.locate_deployment(run.settings(host), run.cluster.name)


def start_deployment_role(run: RunContext, connection: Connection, role: str, script: str) -> int:
    """Start `script` on the host in role `role`, under the deployment's hash; return its PID."""
    launch = run.recall(LaunchState)
    return processes.start_process(
        connection,
        locate_files(run, connection.host),
        role,
        script,
        hash_=launch.deployment.hash,
        about=launch.about[connection.host.name],
    )


def find_endpoint(run: RunContext) -> Endpoint:
    """Return where the wanted deployment answers on the head."""
    launch = run.recall(LaunchState)
    deployment = launch.deployment
    folder = launch.surveys[run.cluster.head.name].folder
    return Endpoint(port=deployment.port, served_name=deployment.served_name, folder=folder)


def begin_replacement(run: RunContext, surveys: Mapping[str, Survey]) -> Replacement:
    """Remember what each host has that must come back if this run fails, and return it.

    What had died before this run does not come back, only its files.
    """
    holder = lock.build_lock_holder(run.options.command)
    died = any(survey.dead and not survey.interrupted for survey in surveys.values())
    states = {}
    for name, survey in surveys.items():
        good = survey.last_good
        if died and not survey.interrupted:
            good = replace(good, roles={})
        states[name] = RunProgress(run=run.run_id, holder=holder, step=RunStep.BEGUN, previous=good)
    replacement = Replacement(states=states)
    run.remember(replacement)
    return replacement


def record_step(
    run: RunContext,
    connection: Connection,
    step: RunStep,
    files: Mapping[str, str | None] | None = None,
) -> None:
    """Write down on the host how far this run is, together with `files` of the deployment."""
    state = replace(run.recall(Replacement).states[connection.host.name], step=step)
    contents = {**(files or {}), STATE: state.text()}
    processes.write_files(connection, locate_files(run, connection.host), contents)


def remove_run_record(run: RunContext, connection: Connection) -> None:
    """Take away what `mark` has written: nothing is in the middle of anything there."""
    processes.write_files(connection, locate_files(run, connection.host), {STATE: None})


def record_step_everywhere(run: RunContext, step: RunStep) -> None:
    """Write down on every host how far this run is, if it has begun to replace anything."""
    replacement = run.found(Replacement)
    if replacement and replacement.states:
        hosts = [host for host in run.cluster.hosts if host.name in replacement.states]
        run.pool.map(lambda connection: record_step(run, connection, step), hosts).all()
