"""What the launching actions share: the deployment that is wanted, and how to undo a start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from sparkfleet.actions.action import Action, Plan
from sparkfleet.actions.scene import Scene
from sparkfleet.launch import processes
from sparkfleet.launch.deployment import Deployment
from sparkfleet.launch.engines import Engine
from sparkfleet.launch.survey import Survey
from sparkfleet.model import Host
from sparkfleet.remote.link import Link

A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The wanted deployment, what runs now, and why it has to be started; `reason` "" if not."""

    deployment: Deployment
    engines: Mapping[str, Engine]
    surveys: Mapping[str, Survey]
    reason: str


class Starting(Action[A]):
    """An action that starts processes; its undo saves their logs and ends them."""

    def salvage(self, scene: Scene, link: Link) -> None:
        """Save every log of the cluster on the host."""
        processes.save_logs(link, place(scene, link.host), scene.log_dir)

    def undo(self, scene: Scene, link: Link, plan: Plan) -> None:
        """End the processes of the cluster on the host."""
        processes.stop(link, place(scene, link.host))


def place(scene: Scene, host: Host) -> dict[str, str]:
    """Return where the cluster's files are on `host`, for a request."""
    return processes.place(scene.settings(host), scene.cluster.name)


def start(scene: Scene, link: Link, role: str, script: str) -> int:
    """Start `script` on the host in role `role`, under the deployment's hash; return its PID."""
    hash_ = scene.recall(Launch).deployment.hash
    return processes.start(link, place(scene, link.host), role, script, hash_=hash_)
