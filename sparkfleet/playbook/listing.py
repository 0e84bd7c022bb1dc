"""List the tasks and hosts of a playbook: `--list-tasks` and `--list-hosts`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sparkfleet.playbook.syntax import AssignedPlay, Task, iterate_tasks


def build_listing(plays: Sequence[AssignedPlay], *, tasks: bool, hosts: bool) -> dict[str, Any]:
    """Return plays with the names of their tasks and hosts, ready for JSON."""
    return {"plays": [_describe_play(assigned, tasks=tasks, hosts=hosts) for assigned in plays]}


def _describe_play(assigned: AssignedPlay, *, tasks: bool, hosts: bool) -> dict[str, Any]:
    play = assigned.play
    description: dict[str, Any] = {
        "name": play.name,
        "pattern": play.hosts,
        "tags": sorted(play.tags),
    }
    if hosts:
        description["hosts"] = [host.name for host in assigned.hosts]
    if tasks:
        description["tasks"] = [_describe_task(task) for task in iterate_tasks(play.tasks)]
    return description


def _describe_task(task: Task) -> dict[str, Any]:
    return {"name": task.name, "action": task.action, "tags": sorted(task.tags)}


def format_listing(content: dict[str, Any], playbook: str) -> Iterator[str]:
    """Yield a listing as `ansible-playbook` prints it."""
    yield f"playbook: {playbook}"
    for number, play in enumerate(content["plays"], 1):
        yield ""
        yield f"  play #{number} ({play['pattern']}): {play['name']}{_format_tags(play)}"
        if "hosts" in play:
            yield f"    pattern: {play['pattern']}"
            yield f"    hosts ({len(play['hosts'])}):"
            yield from (f"      {name}" for name in play["hosts"])
        if "tasks" in play:
            yield "    tasks:"
            yield from (f"      {task['name']}{_format_tags(task)}" for task in play["tasks"])


def _format_tags(item: dict[str, Any]) -> str:
    return f"\tTAGS: [{', '.join(item['tags'])}]"
