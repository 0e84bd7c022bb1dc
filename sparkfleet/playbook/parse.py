"""From a YAML file to plays; every error of the file at once, each with its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sparkfleet import source, yamlpos
from sparkfleet.errors import PlaybookError
from sparkfleet.inventory.checks import check_variable
from sparkfleet.model import Value
from sparkfleet.playbook.keywords import BLOCK_KEYS, INCLUDED_KEYS, PLAY_KEYS
from sparkfleet.playbook.reader import Wrong
from sparkfleet.playbook.syntax import Block, Play, Step
from sparkfleet.playbook.task_reader import INCLUDED, Around, TaskReader
from sparkfleet.resources import find


def load(path: Path) -> tuple[Play, ...]:
    """Return the plays of the file at `path`; raises PlaybookError with all of its problems."""
    parser = _Parser()
    plays = parser.file(path, Around())
    if parser.problems:
        raise PlaybookError.of(tuple(dict.fromkeys(parser.problems)))
    return plays


class _Parser(TaskReader):
    """Reads a playbook, and those that its words stand for."""

    def __init__(self) -> None:
        super().__init__()
        self._open: list[str] = []  # the words whose playbooks are being read

    def file(self, path: Path, around: Around) -> tuple[Play, ...]:
        """Return the plays of a file."""
        text = source.read(path, error=PlaybookError)
        tree = yamlpos.parse(text, error=PlaybookError)
        if isinstance(tree, yamlpos.List) and tree.items:
            return tuple(self._plays(tree.items, around))
        self.note("a playbook is a list of plays", tree.where, "begin with: - name: ...")
        return ()

    def _plays(self, nodes: Sequence[yamlpos.Node], around: Around) -> Iterator[Play]:
        for node in nodes:
            try:
                yield self._play(self.mapping(node, "a play"), around)
            except Wrong:
                continue

    def _play(self, node: yamlpos.Map, around: Around) -> Play:
        self.keys(node, PLAY_KEYS, "a play")
        for key in ("hosts", "tasks"):
            if (value := node.get(key)) is None or value.data in (None, "", []):
                self.note(f"a play needs {key!r}", node.where)
        if self.flag(node, "gather_facts"):
            where = node.key("gather_facts").where
            self.note("facts are gathered by a task", where, "write a task `gather_facts:`")
        hosts = ",".join(self.words(node, "hosts"))
        inside = self.within(node, around)
        return Play(
            name=self.text(node, "name") or hosts,
            hosts=hosts,
            tasks=self._steps(node.get("tasks"), inside),
            fatal=self.flag(node, "any_errors_fatal") is not False,
            vars=self._variables(node),
            tags=inside.tags,
            where=(node.get("hosts") or node).where,
        )

    def _variables(self, node: yamlpos.Map) -> dict[str, Value]:
        found: dict[str, Value] = {}
        given = node.get("vars")
        if given is None or given.data is None:
            return found
        if self._open:
            hint = "put them into the play that names it"
            self.note("a playbook that a word stands for has no vars", given.where, hint)
        for key, value in self.mapping(given, "vars").items():
            self.template(value)
            name = str(key.data)
            found[name] = Value(data=value.data, where=value.where)
            self.problems += check_variable(name, found[name])
            if not name.isidentifier():
                self.note(f"{name!r} is no name for a variable", key.where, "letters, digits and _")
        return found

    def _steps(self, node: yamlpos.Node | None, around: Around) -> tuple[Step, ...]:
        if node is None or node.data is None:
            return ()
        if isinstance(node, yamlpos.List):
            return tuple(self._each_step(node.items, around))
        self.note("tasks are a list", node.where, "begin each with: - name: ...")
        return ()

    def _each_step(self, nodes: Sequence[yamlpos.Node], around: Around) -> Iterator[Step]:
        for node in nodes:
            try:
                step = self.mapping(node, "a task")
                if "block" in step.entries:
                    yield self._block(step, around)
                elif word := next((word for word in INCLUDED if word in step.entries), ""):
                    yield self._included(step, word, around)
                else:
                    yield self.task(step, around)
            except Wrong:
                continue

    def _block(self, node: yamlpos.Map, around: Around) -> Block:
        self.keys(node, BLOCK_KEYS, "a block")
        inside = self.within(node, around)
        return Block(
            name=self.text(node, "name"),
            block=self._steps(node.get("block"), inside),
            rescue=self._steps(node.get("rescue"), inside),
            always=self._steps(node.get("always"), inside),
        )

    def _included(self, node: yamlpos.Map, word: str, around: Around) -> Block:
        self.keys(node, (*INCLUDED_KEYS, word), f"{word}, which stands for many tasks,")
        given, path = node.get(word), find("playbooks", INCLUDED[word])
        if given is not None and given.data is not None:
            self.note(f"{word} takes no arguments", given.where)
        if word in self._open or path is None:
            why = "names itself" if path else "is not there"
            self.note(f"the playbook {INCLUDED[word]} {why}", node.key(word).where)
            raise Wrong
        self._open.append(word)
        plays = self.file(path, self.within(node, around))
        self._open.pop()
        tasks = tuple(step for play in plays for step in play.tasks)
        return Block(name=self.text(node, "name") or word, block=tasks)
