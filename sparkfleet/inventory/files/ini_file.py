"""An INI inventory: ``[group]``, ``[group:vars]`` and ``[group:children]``, as Ansible reads it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable

from sparkfleet.errors import Where
from sparkfleet.inventory.files.ini_values import parse_value, split_ini_line
from sparkfleet.inventory.files.tree import InventoryTree, Variables, overlay_variables
from sparkfleet.inventory.files.yaml_file import set_group_variables
from sparkfleet.model import Value
from sparkfleet.spelling import did_you_mean
from sparkfleet.yaml.positions import MAX_PROBLEMS
from sparkfleet.yaml.source import Source

SECTION = re.compile(r"\[([^:\]\s]+)(?::(\w+))?\]\s*(?:#.*)?")
CHILD = re.compile(r"([^:\]\s]+)\s*(?:#.*)?")
SECTIONS_HINT = "sections are [name], [name:children] and [name:vars]"


def read_ini(source: Source, tree: InventoryTree) -> None:
    """Add the hosts, groups and variables of `source` to `tree`, which keeps the problems."""
    reader = _IniReader(source, tree)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # of values that are tried as Python
        for number, line in enumerate(source.lines, 1):
            text = line.strip()
            if len(tree.problems) > MAX_PROBLEMS:
                return
            if text and text[0] not in ";#":
                reader.read(text, source.where(number, len(line) - len(line.lstrip()) + 1))
    reader.finish()


class _IniReader:
    """Takes one line after the other; what a line means depends on the section above it."""

    def __init__(self, source: Source, tree: InventoryTree) -> None:
        self._source = source
        self._tree = tree
        self._group = "ungrouped"
        self._take: Callable[[str, Where], None] = self._host
        self._awaited: dict[str, list[tuple[str, Where]]] = {}
        self._undeclared: dict[str, Where] = {}
        self._set: dict[tuple[str, str], int | None] = {}

    def read(self, text: str, where: Where) -> None:
        """Read one line that is neither empty nor a comment."""
        if section := SECTION.fullmatch(text):
            self._section(section[1], section[2] or "hosts", where)
        elif text[0] == "[" and text[-1] == "]":
            self._tree.add_problem(f"{text} is not a valid section", where, SECTIONS_HINT)
        else:
            self._take(text, where)

    def finish(self) -> None:
        """Refuse the groups that were used and never declared."""
        for name, where in self._undeclared.items():
            self._tree.add_problem(f"[{name}:vars]: group {name!r} not found", where)
        for name, parents in self._awaited.items():
            for parent, where in parents:
                hint = did_you_mean(name, self._tree.groups) or f"add a section [{name}]"
                problem = f"[{parent}:children]: group {name!r} not found"
                self._tree.add_problem(problem, where, hint)

    def _section(self, name: str, kind: str, where: Where) -> None:
        takers = {"hosts": self._host, "children": self._child, "vars": self._variable}
        if kind not in takers:
            problem = f"[{name}:{kind}]: unknown section type {kind!r}"
            self._tree.add_problem(problem, where, SECTIONS_HINT)
        self._group = name
        self._take = takers.get(kind, self._skip)
        if kind == "vars" and name not in self._tree.groups and name not in self._awaited:
            self._undeclared[name] = where
        self._tree.add_group(name)
        if kind != "vars":
            self._undeclared.pop(name, None)
            for parent, place in self._awaited.pop(name, []):
                self._tree.add_child(parent, name, place)

    def _skip(self, text: str, where: Where) -> None:
        """Pass over a line of a section that was refused."""

    def _child(self, text: str, where: Where) -> None:
        child = CHILD.fullmatch(text)
        if child is None:
            self._tree.add_problem(f"{text!r} is not a valid group name", where)
        elif child[1] in self._tree.groups:
            self._tree.add_child(self._group, child[1], where)
        else:
            self._awaited.setdefault(child[1], []).append((self._group, where))

    def _variable(self, text: str, where: Where) -> None:
        name, value = self._assignment(text, where)
        if value is None:
            return
        if (first := self._set.get((self._group, name))) is not None:
            self._tree.add_problem(f"duplicate key {name!r}, first set on line {first}", where)
        self._set[self._group, name] = where.line
        set_group_variables(self._tree.groups[self._group], {name: value}, self._tree)

    def _host(self, text: str, where: Where) -> None:
        try:
            tokens = list(split_ini_line(text))
        except ValueError as failure:
            self._tree.add_problem(f"cannot be split into words: {failure}", where)
            return
        (pattern, _), *assignments = tokens
        if pattern.endswith(":") or pattern == "---":
            self._tree.add_problem(
                f"{pattern!r} is not a host name",
                where,
                "the name of a YAML inventory must end in .yml",
            )
            return
        variables = self._variables(assignments, where)
        for host in self._tree.add_hosts(pattern, self._group, where):
            overlay_variables(host.vars, variables)

    def _variables(self, tokens: list[tuple[str, int]], where: Where) -> Variables:
        variables: Variables = {}
        for token, offset in tokens:
            name, value = self._assignment(token, where, offset)
            if value is not None and name in variables:
                self._tree.add_problem(f"duplicate key {name!r} on one line", where.move(offset))
            elif value is not None:
                variables[name] = value
        return variables

    def _assignment(self, text: str, where: Where, offset: int = 0) -> tuple[str, Value | None]:
        name, equals, written = text.partition("=")
        if not equals:
            shown = "" if where.excerpt is None else f" (got {text!r})"  # it may be a password
            self._tree.add_problem(f"expected name=value{shown}", where.move(offset))
            return name, None
        try:
            data = parse_value(written.strip())
        except ValueError as failure:
            self._tree.add_problem(f"{name.strip()}: {failure}", where.move(offset))
            return name, None
        return name.strip(), Value(data=data, where=where.move(offset + len(name) + 1))
