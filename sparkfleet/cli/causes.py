"""Naming the causes of a failed run, from the logs that were saved before it was undone."""

from __future__ import annotations

from sparkfleet.actions.scene import Scene
from sparkfleet.doctor.matcher import diagnose, first_error
from sparkfleet.links import Fabric
from sparkfleet.report.events import Note

MOST = 3  # causes that are told; what follows is mostly their consequence


def tell_causes(scene: Scene) -> None:
    """Tell what the saved logs of all hosts show, the first cause first."""
    logs: dict[str, str] = {}
    for host in scene.cluster.hosts:
        parts = [path.read_bytes() for path in sorted(scene.log_dir.glob(f"{host.name}-*.log"))]
        if parts:
            logs[host.name] = b"\n".join(parts).decode(errors="replace")
    causes = [
        finding for finding in diagnose(logs, addresses=_addresses(scene)) if finding.explains
    ]
    for finding in causes[:MOST]:
        lines = (
            f"cause on {finding.host}: {finding.cause} [{finding.id}]",
            f"    {finding.fix}",
            f"    its log says: {finding.text}",
        )
        scene.tell(Note(text="\n".join(lines), level="error"))
    for name, log in logs.items() if not causes else ():
        if error := first_error(log):
            text = f"no known cause; what the logs of {name} say first of it: {error}"
            scene.tell(Note(text=text, level="error"))


def _addresses(scene: Scene) -> dict[str, str]:
    """Return host names by fabric address, as Ray's log lines name them."""
    fabric = scene.found(Fabric)
    if fabric is None:
        return {}
    return {str(fabric.address(host.name)): host.name for host in scene.cluster.hosts}
