"""From a YAML file to plays; every error of the file at once, each with its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sparkfleet import source, yamlpos
from sparkfleet.errors import PlaybookError, Problem, Where
from sparkfleet.playbook.syntax import Block, Play, Step, Task
from sparkfleet.playbook.vocabulary import ACTIONS, check
from sparkfleet.resources import similar

PLAY_KEYS = ("name", "hosts", "vars", "tags", "tasks")
TASK_KEYS = (
    "name", "when", "tags", "register", "retries", "delay", "until", "no_log", "run_once",
)  # fmt: skip
BLOCK_KEYS = ("name", "when", "tags", "block", "rescue", "always")
ANSIBLE_ONLY = {
    "loop": "write the task twice; playbooks here have no loops",
    "with_items": "write the task twice; playbooks here have no loops",
    "notify": "use register and when; playbooks here have no handlers",
    "handlers": "use register and when; playbooks here have no handlers",
    "roles": "write the tasks out; playbooks here have no roles",
    "become": "set ansible_become for the host in the inventory",
    "gather_facts": "write a task `gather_facts:`",
    "pre_tasks": "put them first in tasks",
    "post_tasks": "put them last in tasks",
}


def load(path: Path) -> tuple[Play, ...]:
    """Return the plays of the file at `path`; raises PlaybookError with all of its problems."""
    text = source.read(path, error=PlaybookError)
    tree = yamlpos.parse(text, error=PlaybookError)
    reader = _Reader()
    plays = tuple(reader.plays(tree))
    if reader.problems:
        raise PlaybookError.of(reader.problems)
    return plays


class _Wrong(Exception):  # noqa: N818 - leaves one task, is no error of its own
    """A part of the file cannot be read; its problem is noted."""


class _Reader:
    """Reads a tree and keeps every problem that it meets on the way."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def plays(self, tree: yamlpos.Node) -> Iterator[Play]:
        """Yield the plays of a file."""
        if not isinstance(tree, yamlpos.List) or not tree.items:
            self._note("a playbook is a list of plays", tree.where, "begin with: - name: ...")
            return
        for node in tree.items:
            try:
                yield self._play(node)
            except _Wrong:
                continue

    def _play(self, node: yamlpos.Node) -> Play:
        play = self._map(node, "a play")
        self._keys(play, PLAY_KEYS, "a play")
        for key in ("hosts", "tasks"):
            if play.get(key) is None:
                self._note(f"a play needs {key!r}", play.where)
        tasks = self._steps(play.get("tasks"))
        variables = play.get("vars")
        return Play(
            name=self._text(play, "name") or self._text(play, "hosts"),
            hosts=self._text(play, "hosts"),
            tasks=tasks,
            vars=self._map(variables, "vars").data if variables else {},
            tags=self._tags(play),
            where=play.where,
        )

    def _steps(self, node: yamlpos.Node | None) -> tuple[Step, ...]:
        if node is None or node.data is None:
            return ()
        if not isinstance(node, yamlpos.List):
            self._note("tasks are a list", node.where, "begin each with: - name: ...")
            return ()
        return tuple(self._each_step(node.items))

    def _each_step(self, nodes: Sequence[yamlpos.Node]) -> Iterator[Step]:
        for node in nodes:
            try:
                task = self._map(node, "a task")
                yield self._block(task) if task.get("block") else self._task(task)
            except _Wrong:
                continue

    def _block(self, node: yamlpos.Map) -> Block:
        self._keys(node, BLOCK_KEYS, "a block")
        return Block(
            name=self._text(node, "name"),
            block=self._steps(node.get("block")),
            rescue=self._steps(node.get("rescue")),
            always=self._steps(node.get("always")),
            when=self._conditions(node),
            tags=self._tags(node),
            where=node.where,
        )

    def _task(self, node: yamlpos.Map) -> Task:
        action = self._action(node)
        given = node.get(action)
        args = {} if given is None or given.data is None else self._map(given, action).data
        self.problems += check(action, args, node.key(action).where)
        return Task(
            name=self._text(node, "name") or action,
            action=action,
            args=args,
            when=self._conditions(node),
            tags=self._tags(node),
            register=self._text(node, "register") or None,
            retries=self._number(node, "retries", 3 if node.get("until") else 0),
            delay=self._number(node, "delay", 5),
            until=self._text(node, "until") or None,
            no_log=self._flag(node, "no_log"),
            run_once=self._flag(node, "run_once"),
            where=node.where,
        )

    def _action(self, node: yamlpos.Map) -> str:
        names = [str(key) for key in node.entries if key in ACTIONS]
        self._keys(node, (*TASK_KEYS, *ACTIONS), "a task")
        if len(names) == 1:
            return names[0]
        if names:
            self._note(f"a task has one action, this one has {' and '.join(names)}", node.where)
        else:
            self._note("this task has no action", node.where, similar("", list(ACTIONS)))
        raise _Wrong

    def _keys(self, node: yamlpos.Map, known: Sequence[str], what: str) -> None:
        for name in node.entries:
            if name not in known:
                hint = ANSIBLE_ONLY.get(str(name)) or similar(str(name), list(known))
                self._note(f"{what} has no key {name!r}", node.key(name).where, hint)

    def _conditions(self, node: yamlpos.Map) -> tuple[str, ...]:
        when = node.get("when")
        if when is None:
            return ()
        items = when.items if isinstance(when, yamlpos.List) else (when,)
        return tuple(str(item.data) for item in items)

    def _tags(self, node: yamlpos.Map) -> frozenset[str]:
        tags = node.get("tags")
        if tags is None:
            return frozenset()
        items = tags.data if isinstance(tags, yamlpos.List) else str(tags.data).split(",")
        return frozenset(str(item).strip() for item in items)

    def _text(self, node: yamlpos.Map, key: str) -> str:
        value = node.get(key)
        if value is None or value.data is None:
            return ""
        if isinstance(value, yamlpos.Scalar):
            return str(value.data)
        self._note(f"{key} is a text", value.where)
        return ""

    def _number(self, node: yamlpos.Map, key: str, default: int) -> int:
        value = node.get(key)
        if value is None:
            return default
        if isinstance(value.data, int) and not isinstance(value.data, bool) and value.data >= 0:
            return value.data
        self._note(f"{key} is a whole number, not {value.data!r}", value.where)
        return default

    def _flag(self, node: yamlpos.Map, key: str) -> bool:
        value = node.get(key)
        if value is None or isinstance(value.data, bool):
            return bool(value and value.data)
        self._note(f"{key} is true or false, not {value.data!r}", value.where)
        return False

    def _map(self, node: yamlpos.Node, what: str) -> yamlpos.Map:
        if not isinstance(node, yamlpos.Map):
            self._note(f"{what} is a mapping, not {node.data!r}", node.where)
            raise _Wrong
        return node

    def _note(self, message: str, where: Where, hint: str | None = None) -> None:
        self.problems.append(Problem(message=message, where=where, hint=hint))
