"""What the launching actions share: the deployment that is wanted, and how far the run is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from sparkfleet.actions import lock
from sparkfleet.actions.action import Action, Plan
from sparkfleet.actions.scene import Scene
from sparkfleet.launch import processes
from sparkfleet.launch.deployment import Deployment
from sparkfleet.launch.endpoint import Endpoint
from sparkfleet.launch.engines import Engine
from sparkfleet.launch.survey import Survey
from sparkfleet.launch.transaction import STATE, About, State, Step
from sparkfleet.model import EMPTY, Host
from sparkfleet.remote.link import Link

A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The wanted deployment, what runs now, and why it has to be started; `reason` "" if not."""

    deployment: Deployment
    engines: Mapping[str, Engine]
    surveys: Mapping[str, Survey]
    reason: str
    about: Mapping[str, About] = field(default_factory=lambda: EMPTY)  # by host


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What this run has begun to replace, by host; empty once it is finished or taken back."""

    states: Mapping[str, State]


class Starting(Action[A]):
    """An action that starts processes; its undo saves their logs and ends them."""

    def salvage(self, scene: Scene, link: Link) -> None:
        """Save every log of the cluster on the host, unless another action has done so."""
        if not any(scene.log_dir.glob(f"{link.host.name}-*.log")):
            processes.save_logs(link, place(scene, link.host), scene.log_dir)

    def undo(self, scene: Scene, link: Link, plan: Plan) -> None:
        """End the processes of the cluster on the host."""
        processes.stop(link, place(scene, link.host))


def place(scene: Scene, host: Host) -> dict[str, str]:
    """Return where the cluster's files are on `host`, for a request."""
    return processes.place(scene.settings(host), scene.cluster.name)


def start(scene: Scene, link: Link, role: str, script: str) -> int:
    """Start `script` on the host in role `role`, under the deployment's hash; return its PID."""
    launch = scene.recall(Launch)
    return processes.start(
        link,
        place(scene, link.host),
        role,
        script,
        hash_=launch.deployment.hash,
        about=launch.about[link.host.name],
    )


def endpoint(scene: Scene) -> Endpoint:
    """Return where the wanted deployment answers on the head."""
    launch = scene.recall(Launch)
    deployment = launch.deployment
    folder = launch.surveys[scene.cluster.head.name].folder
    return Endpoint(port=deployment.port, served_name=deployment.served_name, folder=folder)


def begin(scene: Scene, surveys: Mapping[str, Survey]) -> Attempt:
    """Remember what each host has that must come back if this run fails, and return it.

    What had died before this run does not come back, only its files.
    """
    holder = lock.holder(scene.options.command)
    died = any(survey.dead and not survey.interrupted for survey in surveys.values())
    states = {}
    for name, survey in surveys.items():
        good = survey.good
        if died and not survey.interrupted:
            good = replace(good, roles={})
        states[name] = State(run=scene.run_id, holder=holder, step=Step.BEGUN, previous=good)
    attempt = Attempt(states=states)
    scene.remember(attempt)
    return attempt


def mark(
    scene: Scene, link: Link, step: Step, files: Mapping[str, str | None] | None = None
) -> None:
    """Write down on the host how far this run is, together with `files` of the deployment."""
    state = replace(scene.recall(Attempt).states[link.host.name], step=step)
    contents = {**(files or {}), STATE: state.text()}
    processes.write_files(link, place(scene, link.host), contents)


def forget(scene: Scene, link: Link) -> None:
    """Take away what `mark` has written: nothing is in the middle of anything there."""
    processes.write_files(link, place(scene, link.host), {STATE: None})


def mark_all(scene: Scene, step: Step) -> None:
    """Write down on every host how far this run is, if it has begun to replace anything."""
    attempt = scene.found(Attempt)
    if attempt and attempt.states:
        hosts = [host for host in scene.cluster.hosts if host.name in attempt.states]
        scene.pool.map(lambda link: mark(scene, link, step), hosts).all()
