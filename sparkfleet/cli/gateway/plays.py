"""The plays of the gateway: on its host, under its own lock."""

from __future__ import annotations

from sparkfleet.inventory.gateway import Gateway
from sparkfleet.playbook.syntax import AssignedPlay, Play, Task

Steps = tuple[tuple[str, str], ...]

LOCK = ("Take the lock of the gateway", "lock")
RENDER = ("Render and compare", "gateway_render")
UP = (
    LOCK,
    RENDER,
    ("Start or reload", "gateway_start"),
    ("Models at the gateway", "gateway_check"),
)
DOWN = (LOCK, ("Stop", "gateway_stop"))
DRIFT = (RENDER, ("Drift", "gateway_drift"))


def build_gateway_play(
    name: str, steps: tuple[tuple[str, str], ...], gateway: Gateway
) -> AssignedPlay:
    """Return the play `name` of `steps`, each the name of a task and its action."""
    tasks = tuple(Task(name=title, action=action) for title, action in steps)
    play = Play(name=name, hosts=gateway.host.name, tasks=tasks)
    return AssignedPlay(play=play, hosts=(gateway.host,))
