"""Shared by the actions that start a deployment: its processes, files and recorded steps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Protocol, TypeVar

from sparkfleet.actions.action import Action, Plan
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import Replacement
from sparkfleet.launch.endpoint.endpoint import Endpoint
from sparkfleet.launch.host import processes
from sparkfleet.launch.host.deployment_record import STATE, RunProgress, RunStep
from sparkfleet.launch.host.file_names import RAY_TOKEN
from sparkfleet.launch.host.survey import Survey
from sparkfleet.model import EMPTY, Change, Host
from sparkfleet.remote.connection import Connection

A = TypeVar("A")


class StartAction(Action[A]):
    """An action that starts processes; its undo saves their logs and stops them."""

    undoes = True

    def salvage(self, run: RunContext, connection: Connection) -> None:
        """Save every log of the cluster on the host, unless another action has done so."""
        if not any(run.log_dir.glob(f"{connection.host.name}-*.log")):
            processes.save_logs(connection, locate_files(run, connection.host), run.log_dir)

    def undo(self, run: RunContext, connection: Connection, plan: Plan) -> None:
        """Stop the processes of the cluster on the host."""
        processes.stop_processes(connection, locate_files(run, connection.host))


class RoleArgs(Protocol):
    """Arguments that choose hosts by their role."""

    @property
    def role(self) -> Literal["head", "workers"]:
        """The hosts to start on."""


R = TypeVar("R", bound=RoleArgs)


class StartScriptAction(StartAction[R]):
    """An action that starts a script of the deployment on the head, or on the workers."""

    requires = ("launch", "replacement")

    @property
    @abstractmethod
    def script(self) -> str:
        """The name of the script in the folder of the deployment."""

    def hosts(self, run: RunContext) -> Sequence[Host]:
        """Choose the head, or the workers."""
        return run.cluster.hosts[:1] if self.args.role == "head" else run.cluster.workers

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Start the script if the deployment must be started."""
        if not run.launch.reason:
            return {name: Plan(message="running") for name in inspected}
        return {name: Plan(changes=(Change(summary=f"start {self.script}"),)) for name in inspected}


def locate_files(run: RunContext, host: Host) -> dict[str, str]:
    """Return where the cluster's files are on `host`, for a request."""
    return processes.locate_deployment(run.settings(host), run.cluster.name)


def start_deployment_role(
    run: RunContext,
    connection: Connection,
    role: str,
    script: str,
    *,
    settle: float = processes.SETTLE,
) -> int:
    """Start `script` on the host in role `role`, under the deployment's hash; return its PID.

    `settle` is that of `start_process`, s.
    """
    launch = run.launch
    return processes.start_process(
        connection,
        locate_files(run, connection.host),
        role,
        script,
        hash_=launch.deployment.hash,
        about=launch.about[connection.host.name],
        files={RAY_TOKEN: run.ray_token} if role == "ray" else EMPTY,
        settle=settle,
    )


def find_endpoint(run: RunContext) -> Endpoint:
    """Return the endpoint of the rendered deployment on the head."""
    launch = run.launch
    deployment = launch.deployment
    folder = launch.surveys[run.cluster.head.name].folder
    return Endpoint(
        listens_on=deployment.listens_on,
        port=deployment.port,
        served_name=deployment.served_name,
        folder=folder,
    )


def list_copies(run: RunContext) -> tuple[int | None, ...]:
    """Return the copies of the model that each must answer; (None,) where there is only one."""
    count = run.launch.deployment.dp
    return tuple(range(count)) if count > 1 else (None,)


def begin_replacement(run: RunContext, surveys: Mapping[str, Survey]) -> Replacement:
    """Return what must be restored on each host if this run fails.

    Of a deployment that did not serve before this run only the files are restored.
    """
    health = run.state.health
    died = any(survey.dead and not survey.interrupted for survey in surveys.values())
    died |= health is not None and health.should_relaunch
    states = {}
    for name, survey in surveys.items():
        good = survey.last_good
        if died and not survey.interrupted:
            good = replace(good, roles={})
        states[name] = RunProgress(
            run=run.run_id, holder=run.holder, step=RunStep.BEGUN, previous=good
        )
    return Replacement(states=states)


def record_step(
    run: RunContext,
    connection: Connection,
    step: RunStep,
    files: Mapping[str, str | None] | None = None,
) -> None:
    """Record on the host how far this run is, together with `files` of the deployment."""
    state = replace(run.replacement.states[connection.host.name], step=step)
    contents = {**(files or {}), STATE: state.text()}
    processes.write_files(connection, locate_files(run, connection.host), contents)


def remove_run_record(run: RunContext, connection: Connection) -> None:
    """Remove the record of `record_step`: no run is unfinished on that host."""
    processes.write_files(connection, locate_files(run, connection.host), {STATE: None})


def record_step_everywhere(run: RunContext, step: RunStep) -> None:
    """Record on every host how far this run is, if it has begun to replace anything."""
    replacement = run.state.replacement
    if replacement and replacement.states:
        hosts = [host for host in run.cluster.hosts if host.name in replacement.states]
        run.pool.map(lambda connection: record_step(run, connection, step), hosts).all()
