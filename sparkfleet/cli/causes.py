"""Naming the causes of a failed run, from the logs that were saved before it was undone."""

from __future__ import annotations

from dataclasses import replace

from sparkfleet.actions.scene import Scene
from sparkfleet.cli.diagnosis import told, told_error
from sparkfleet.doctor.diagnosis import examine
from sparkfleet.doctor.logs import INTERRUPTED, read
from sparkfleet.links import Fabric
from sparkfleet.report.events import Note

MOST = 3  # causes that are told; what follows is mostly their consequence


def tell_causes(scene: Scene) -> None:
    """Tell what the saved logs of all hosts show, the first cause first."""
    case = read(scene.log_dir)
    own = tuple(log for log in case.logs if not log.name.startswith(INTERRUPTED))
    found = examine(replace(case, logs=own), addresses=_addresses(scene))
    for finding in found.causes[:MOST]:
        scene.tell(Note(text="\n".join(told(finding)), level="error"))
    for error in found.errors:
        scene.tell(Note(text=f"no known cause; {told_error(error)}", level="error"))


def _addresses(scene: Scene) -> dict[str, str]:
    """Return host names by fabric address, as Ray's log lines name them."""
    fabric = scene.found(Fabric)
    if fabric is None:
        return {}
    return {str(fabric.address(host.name)): host.name for host in scene.cluster.hosts}
