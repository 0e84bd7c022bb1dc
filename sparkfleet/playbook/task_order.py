"""Check of the order of tasks: each action needs the results of earlier ones.

Actions declare the fields of `RunState` that they require, use, provide and outdate: what was read
before the lock was held may have changed. The order is checked when a playbook is parsed, again for
the tasks that options select, and last before each task runs, since a condition may have skipped
the task that provides a field. What must happen on the hosts in an order, such as a start before a
wait for it, is declared as `after`, or as `order` for the steps of one action, and checked with the
file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sparkfleet.errors import PlaybookError, Problem, UsageError
from sparkfleet.playbook import vocabulary
from sparkfleet.playbook.syntax import Block, Play, Task, TaskOrBlock, iterate_tasks


def find_order_problems(plays: Sequence[Play], *, nodes: int = 1) -> list[Problem]:
    """Return a problem for each task that comes before one that must run before it.

    The state is kept from play to play. A task with a condition counts as if it ran. A rescue can
    use what its block provides; the tasks after a block cannot use what only its rescue provides.
    """
    problems = [
        problem
        for misplaced in _find_misplaced_tasks(plays, nodes)
        for problem in _explain_order(misplaced)
    ]
    problems += [
        Problem(
            message=f"{later} must run before {early}",
            where=task.where,
            hint=f"move this task below `{later if ':' in later else f'{later}:'}`",
        )
        for play in plays
        for task, early, later in _find_early_tasks(play.tasks)
    ]
    return list(dict.fromkeys(problems))


def check_selected_order(chosen: Sequence[Play], plays: Sequence[Play], *, nodes: int) -> None:
    """Check the tasks that options have selected from `plays`.

    Raises UsageError for a task that needs one that is not selected, and PlaybookError for a task
    that needs one that the file lacks, as only a group of several nodes does.
    """
    problems = find_order_problems(plays, nodes=nodes)
    if problems:
        raise PlaybookError.of(problems)
    selected = {id(task) for play in chosen for task in iterate_tasks(play.tasks)}
    left_out = [
        task for play in plays for task in iterate_tasks(play.tasks) if id(task) not in selected
    ]
    for misplaced in _find_misplaced_tasks(chosen, nodes):
        task = misplaced.task
        lacking = {*misplaced.missing, *misplaced.outdated}
        provider = next(
            (
                other
                for other in left_out
                if lacking & set(vocabulary.ACTIONS[other.action].provides)
            ),
            None,
        )
        if provider is not None:
            raise UsageError(
                f"the task {task.name!r} needs the task {provider.name!r}, which is not selected",
                where=task.where,
                hint="use --start-at with that task or an earlier one, or change --tags and "
                "--skip-tags",
            )


def explain_missing_state(
    task: Task, missing: Sequence[str], skipped: Sequence[Task]
) -> PlaybookError:
    """Return the error for a task whose requirements no task of this run has provided."""
    provider = next(
        (
            other
            for other in skipped
            if set(missing) & set(vocabulary.ACTIONS[other.action].provides)
        ),
        None,
    )
    if provider is None:
        providers = " and ".join(_list_providers(missing))
        return PlaybookError(
            f"the task {task.name!r} needs {' and '.join(missing)}, and {providers} did not "
            "provide it in this run",
            where=task.where,
            hint="fix the failure of that task first",
        )
    return PlaybookError(
        f"the task {task.name!r} needs {' and '.join(missing)}, but the task that provides it was "
        f"skipped: {provider.name!r} ({provider.action})",
        where=task.where,
        hint=f"remove `when` from {provider.name!r}, or add the same condition to this task",
    )


def _find_misplaced_tasks(plays: Sequence[Play], nodes: int) -> Iterator[_Misplaced]:
    """Yield each task whose requirements no earlier task provides, or only outdated ones."""
    walk = _Walk(nodes=nodes)
    for play in plays:
        yield from walk.find(play.tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Misplaced:
    """A task, the fields that no earlier task provides, and those that are outdated.

    `outdated` has for each the action that provided it and the one that has outdated it.
    """

    task: Task
    missing: tuple[str, ...]
    outdated: Mapping[str, tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walk:
    """A walk through tasks as they run if nothing fails.

    `provided` has the action that provided each field, "" for one that was reported as missing;
    `outdated` has that action and the one that outdated the field.
    """

    nodes: int
    provided: dict[str, str] = field(default_factory=dict)
    outdated: dict[str, tuple[str, str]] = field(default_factory=dict)

    def find(self, steps: Sequence[TaskOrBlock]) -> Iterator[_Misplaced]:
        """Yield the misplaced tasks among `steps`; each field is reported once."""
        for step in steps:
            if isinstance(step, Block):
                yield from self.find(step.block)
                aside = replace(self, provided={**self.provided}, outdated={**self.outdated})
                yield from aside.find(step.rescue)
                yield from self.find(step.always)
            else:
                yield from self._check_task(step)
                self._pass_task(step.action)

    def _check_task(self, task: Task) -> Iterator[_Misplaced]:
        action = vocabulary.ACTIONS[task.action]
        required = action.list_requirements(nodes=self.nodes)
        missing = tuple(name for name in required if name not in self.provided)
        read = dict.fromkeys((*required, *action.uses))
        outdated = {name: self.outdated.pop(name) for name in read if name in self.outdated}
        if missing or outdated:
            yield _Misplaced(task=task, missing=missing, outdated=outdated)
        self.provided.update(dict.fromkeys(missing, ""))

    def _pass_task(self, name: str) -> None:
        action = vocabulary.ACTIONS[name]
        if not self.provided.keys() >= set(action.provides):  # taking a lock again changes nothing
            for read in action.outdates:
                if provider := self.provided.get(read):
                    self.outdated[read] = (provider, name)
        for provided in action.provides:
            self.provided[provided] = name
            self.outdated.pop(provided, None)


def _find_early_tasks(steps: Sequence[TaskOrBlock]) -> Iterator[tuple[Task, str, str]]:
    """Yield each task of a play that comes too early, with its label and that of the other one.

    Of the tasks of one list, all must be in order; of those of other blocks, one is enough.
    """
    expected = list(_list_expected_tasks(steps))
    first = {label: at for at, label in reversed(list(_list_labels(expected)))}
    yield from _compare_places(expected, first)
    for siblings in _list_siblings(steps):
        last = {label: at for at, label in _list_labels(siblings)}
        yield from _compare_places(siblings, last)


def _compare_places(
    tasks: Sequence[Task], places: Mapping[str, int]
) -> Iterator[tuple[Task, str, str]]:
    for at, task in enumerate(tasks):
        for early, later in _list_predecessors(task):
            if places.get(later, at) > at:
                yield task, early, later


def _list_labels(tasks: Sequence[Task]) -> Iterator[tuple[int, str]]:
    """Yield the place of each task with its action, and with its step where that has an order."""
    for at, task in enumerate(tasks):
        yield at, task.action
        if step := _read_step(task):
            yield at, _format_step(task, step)


def _list_predecessors(task: Task) -> Iterator[tuple[str, str]]:
    """Yield a label of `task` and one of those that must come before it."""
    action = vocabulary.ACTIONS[task.action]
    yield from ((task.action, name) for name in action.after)
    if step := _read_step(task):
        _, steps = action.order
        for earlier in steps[: steps.index(step)]:
            yield _format_step(task, step), _format_step(task, earlier)


def _read_step(task: Task) -> str:
    """Return the value of the argument that orders tasks; "" for any other, or a template."""
    argument, steps = vocabulary.ACTIONS[task.action].order
    value = task.args.get(argument)
    return str(value.data) if value is not None and value.data in steps else ""


def _format_step(task: Task, step: str) -> str:
    argument, _ = vocabulary.ACTIONS[task.action].order
    return f"{task.action}: {{{argument}: {step}}}"


def _list_expected_tasks(steps: Sequence[TaskOrBlock]) -> Iterator[Task]:
    """Yield the tasks that run if nothing fails, in the order of the file."""
    for step in steps:
        if isinstance(step, Block):
            yield from _list_expected_tasks((*step.block, *step.always))
        else:
            yield step


def _list_siblings(steps: Sequence[TaskOrBlock]) -> Iterator[list[Task]]:
    """Yield the tasks of each list of a play, without those of the blocks in it."""
    yield [step for step in steps if isinstance(step, Task)]
    for step in steps:
        if isinstance(step, Block):
            for part in (step.block, step.rescue, step.always):
                yield from _list_siblings(part)


def _explain_order(misplaced: _Misplaced) -> Iterator[Problem]:
    action = misplaced.task.action
    if misplaced.missing:
        providers = _list_providers(misplaced.missing)
        tasks = ", ".join(f"`{name.partition(' or ')[0]}:`" for name in providers)
        yield Problem(
            message=f"{' and '.join(providers)} must run before {action} "
            f"({action} needs {' and '.join(misplaced.missing)})",
            where=misplaced.task.where,
            hint=f"add before this task: {tasks}",
        )
    for provider, cause in dict.fromkeys(misplaced.outdated.values()):
        names = [name for name, by in misplaced.outdated.items() if by == (provider, cause)]
        yield Problem(
            message=f"{provider} must run between {cause} and {action} "
            f"({action} needs {' and '.join(names)})",
            where=misplaced.task.where,
            hint=f"move `{provider}:` below `{cause}:`, or repeat it there: what it read before "
            "may have changed",
        )


def _list_providers(fields: Sequence[str]) -> list[str]:
    """Return the actions that provide `fields` together, the alternatives joined by "or"."""
    providers: list[str] = []
    left = list(fields)
    while left:
        names = [
            name for name in vocabulary.ACTIONS if left[0] in vocabulary.ACTIONS[name].provides
        ]
        # an action that provides all of them is enough
        best = max(len(set(left) & set(vocabulary.ACTIONS[name].provides)) for name in names)
        chosen = [
            name
            for name in names
            if len(set(left) & set(vocabulary.ACTIONS[name].provides)) == best
        ]
        providers.append(" or ".join(chosen))
        left = [field for field in left if field not in vocabulary.ACTIONS[chosen[0]].provides]
    return providers
