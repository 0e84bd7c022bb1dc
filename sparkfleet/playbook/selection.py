"""Select tasks of a playbook with `--tags`, `--skip-tags` and `--start-at`, as in Ansible."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from sparkfleet.errors import UsageError
from sparkfleet.playbook.syntax import Block, Play, Task, TaskOrBlock, iterate_tasks
from sparkfleet.spelling import suggest_similar

SPECIAL = frozenset({"all", "always", "never", "tagged", "untagged"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Options of the command line; all empty selects every task."""

    tags: frozenset[str] = frozenset()
    skip_tags: frozenset[str] = frozenset()
    start_at: str = ""


def select_tasks(plays: Sequence[Play], selection: Selection) -> tuple[Play, ...]:
    """Return `plays` with the tasks that run, without plays that have none.

    Raises UsageError for an unknown tag or task, and if no task is left.
    """
    _check_tags(plays, selection)
    chosen = _filter_plays(plays, lambda task: is_selected(task.tags, selection))
    if selection.start_at:
        chosen = _start_at_task(chosen, selection.start_at)
    if not chosen:
        raise UsageError("no task is selected", hint="see --list-tasks")
    return chosen


def is_selected(tags: frozenset[str], selection: Selection) -> bool:
    """Return whether a task with `tags` runs (ansible-core 2.19, Taggable.evaluate_tags)."""
    effective = tags or frozenset({"untagged"})
    only = selection.tags
    skip = selection.skip_tags
    runs = (
        "always" in effective
        or bool(effective & only)
        or (
            "never" not in effective
            and (not only or "all" in only or ("tagged" in only and bool(tags)))
        )
    )
    if "all" in skip:
        return runs and "always" in effective and "always" not in skip
    return runs and not effective & skip and not ("tagged" in skip and tags)


def _check_tags(plays: Sequence[Play], selection: Selection) -> None:
    existing = {tag for play in plays for task in iterate_tasks(play.tasks) for tag in task.tags}
    for tag in sorted((selection.tags | selection.skip_tags) - SPECIAL - existing):
        raise UsageError(
            f"no task has the tag {tag!r}", hint=suggest_similar(tag, sorted(existing))
        )


def _filter_plays(plays: Iterable[Play], keep: Callable[[Task], bool]) -> tuple[Play, ...]:
    filtered = (replace(play, tasks=tuple(_keep_steps(play.tasks, keep))) for play in plays)
    return tuple(play for play in filtered if play.tasks)


def _keep_steps(
    steps: Sequence[TaskOrBlock], keep: Callable[[Task], bool]
) -> Iterator[TaskOrBlock]:
    for step in steps:
        if isinstance(step, Task):
            if keep(step):
                yield step
            continue
        block = tuple(_keep_steps(step.block, keep))
        always = tuple(_keep_steps(step.always, keep))
        if block or always:
            rescue = tuple(_keep_steps(step.rescue, keep))
            yield Block(name=step.name, block=block, rescue=rescue, always=always)


def _start_at_task(plays: Sequence[Play], name: str) -> tuple[Play, ...]:
    """Drop the tasks before the task `name`, which may be a glob."""
    tasks = [task for play in plays for task in _normal_course(play.tasks)]
    index = next((i for i, task in enumerate(tasks) if fnmatch.fnmatchcase(task.name, name)), None)
    if index is None:
        names = [task.name for task in tasks]
        raise UsageError(f"task {name!r} not found", hint=suggest_similar(name, names))
    before = {id(task) for task in tasks[:index]}
    return _filter_plays(plays, lambda task: id(task) not in before)


def _normal_course(steps: Sequence[TaskOrBlock]) -> Iterator[Task]:
    """Yield the tasks that run if nothing fails."""
    for step in steps:
        if isinstance(step, Task):
            yield step
        else:
            yield from _normal_course((*step.block, *step.always))
