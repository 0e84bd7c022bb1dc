"""Parse a YAML file into plays; reports all errors of the file at once, each with its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sparkfleet.errors import PlaybookError
from sparkfleet.inventory.checks import check_variable
from sparkfleet.model import Value
from sparkfleet.playbook.keywords import BLOCK_KEYS, INCLUDED_KEYS, PLAY_KEYS
from sparkfleet.playbook.reader import InvalidNode
from sparkfleet.playbook.syntax import Block, Play, TaskOrBlock
from sparkfleet.playbook.task_order import find_order_problems
from sparkfleet.playbook.task_reader import INCLUDED, Inherited, TaskReader
from sparkfleet.resources import find_data_file
from sparkfleet.yaml import positions, source

MAX_TASKS = 2000  # of a playbook with all that it includes


def load_playbook(path: Path) -> tuple[Play, ...]:
    """Return the plays of the file at `path`; raises PlaybookError with all of its problems."""
    parser = _PlaybookParser()
    plays = parser.parse_file(path, Inherited())
    problems = parser.problems or find_order_problems(plays)
    if problems:
        raise PlaybookError.of(tuple(dict.fromkeys(problems)))
    return plays


class _PlaybookParser(TaskReader):
    """Reads a playbook, and those that its words include."""

    def __init__(self) -> None:
        super().__init__()
        self._open: list[str] = []  # the words of the playbooks being read
        self._count = 0  # of tasks and blocks so far

    def parse_file(self, path: Path, inherited: Inherited) -> tuple[Play, ...]:
        """Return the plays of a file."""
        text = source.read_source_file(path, error=PlaybookError)
        tree = positions.parse_yaml(text, error=PlaybookError)
        if isinstance(tree, positions.List) and tree.items:
            return tuple(self._plays(tree.items, inherited))
        self.note("a playbook must be a list of plays", tree.where, "begin with: - name: ...")
        return ()

    def _plays(self, nodes: Sequence[positions.Node], inherited: Inherited) -> Iterator[Play]:
        for node in nodes:
            if len(self.problems) >= positions.MAX_PROBLEMS:
                return
            try:
                yield self._play(self.mapping(node, "a play"), inherited)
            except InvalidNode:
                continue

    def _play(self, node: positions.Map, inherited: Inherited) -> Play:
        self.keys(node, PLAY_KEYS, "a play")
        for key in ("hosts", "tasks"):
            if (value := node.get(key)) is None or value.data in (None, "", []):
                self.note(f"a play requires {key!r}", node.where)
        if self.flag(node, "gather_facts"):
            where = node.key("gather_facts").where
            hint = "write a task: gather_facts:"
            self.note("gather_facts is a task, not a keyword of a play", where, hint)
        hosts = ",".join(self.strings(node, "hosts"))
        inside = self.within(node, inherited)
        return Play(
            name=self.text(node, "name") or hosts,
            hosts=hosts,
            tasks=self._steps(node.get("tasks"), inside),
            fatal=self.flag(node, "any_errors_fatal") is not False,
            vars=self._variables(node),
            tags=inside.tags,
            where=(node.get("hosts") or node).where,
        )

    def _variables(self, node: positions.Map) -> dict[str, Value]:
        variables: dict[str, Value] = {}
        given = node.get("vars")
        if given is None or given.data is None:
            return variables
        if self._open:
            hint = "put them into the play that includes it"
            self.note("an included playbook cannot have vars", given.where, hint)
        for key, value in self.mapping(given, "vars").items():
            self.template(value)
            name = str(key.data)
            variables[name] = Value(data=value.data, where=value.where)
            self.problems += check_variable(name, variables[name])
            if not name.isidentifier():
                self.note(
                    f"{name!r} is not a valid variable name", key.where, "use letters, digits and _"
                )
        return variables

    def _steps(self, node: positions.Node | None, inherited: Inherited) -> tuple[TaskOrBlock, ...]:
        if node is None or node.data is None:
            return ()
        if isinstance(node, positions.List):
            return tuple(self._each_step(node.items, inherited))
        self.note("tasks must be a list", node.where, "begin each with: - name: ...")
        return ()

    def _each_step(
        self, nodes: Sequence[positions.Node], inherited: Inherited
    ) -> Iterator[TaskOrBlock]:
        for node in nodes:
            self._count += 1
            if self._count > MAX_TASKS:
                self._refuse_more_tasks(node)
                return
            try:
                step = self.mapping(node, "a task")
                if "block" in step.entries:
                    yield self._block(step, inherited)
                elif word := next((word for word in INCLUDED if word in step.entries), ""):
                    yield self._included(step, word, inherited)
                else:
                    yield self.task(step, inherited)
            except InvalidNode:
                continue

    def _refuse_more_tasks(self, node: positions.Node) -> None:
        if self._count == MAX_TASKS + 1:
            hint = "split it into several playbooks"
            self.note(f"a playbook can have at most {MAX_TASKS} tasks", node.where, hint)

    def _block(self, node: positions.Map, inherited: Inherited) -> Block:
        self.keys(node, BLOCK_KEYS, "a block")
        inside = self.within(node, inherited)
        return Block(
            name=self.text(node, "name"),
            block=self._steps(node.get("block"), inside),
            rescue=self._steps(node.get("rescue"), inside),
            always=self._steps(node.get("always"), inside),
        )

    def _included(self, node: positions.Map, word: str, inherited: Inherited) -> Block:
        self.keys(node, (*INCLUDED_KEYS, word), f"{word}, which includes tasks")
        given = node.get(word)
        path = find_data_file("playbooks", INCLUDED[word])
        if given is not None and given.data is not None:
            hint = "give --tp, --recipe and --limit on the command line"
            self.note(f"{word} takes no arguments", given.where, hint)
        if word in self._open or path is None:
            why = "includes itself" if path else "not found"
            self.note(f"the playbook {INCLUDED[word]} {why}", node.key(word).where)
            raise InvalidNode
        self._open.append(word)
        plays = self.parse_file(path, self.within(node, inherited))
        self._open.pop()
        tasks = tuple(step for play in plays for step in play.tasks)
        return Block(name=self.text(node, "name") or word, block=tasks)
