"""YAML in which every value has its position, composed by libyaml; duplicate keys are errors.

The values are those of PyYAML's safe loader (YAML 1.1, as Ansible reads it), with three
exceptions: text that is JSON keeps JSON's numbers, ``!unsafe`` text becomes `Unsafe`, and every
other tag that is not plain data is refused by name, ``!vault`` too where no reader asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import yaml

from sparkfleet.errors import InputError, Problem, Where
from sparkfleet.garbage_collection import pause_garbage_collection
from sparkfleet.values import MAX_DEPTH, TOO_DEEP, parse_json
from sparkfleet.yaml.encryption import ELSEWHERE
from sparkfleet.yaml.nodes import Encrypted, Entry, List, Map, Node, Scalar, Unsafe
from sparkfleet.yaml.source import Source, decode_source
from sparkfleet.yaml.syntax import QUOTE_HINT, explain_syntax_error

__all__ = ["List", "Map", "Node", "Scalar", "Unsafe", "load_yaml", "parse_yaml"]

MAX_VALUES = 1_000_000  # once aliases are written out; a YAML bomb holds billions
MAX_PROBLEMS = 1000  # of a document; a message shows a few of them
TAG = "tag:yaml.org,2002:"
STR = TAG + "str"
VAULT = "!vault"
TAGS: Mapping[type[yaml.Node], frozenset[str]] = {
    yaml.ScalarNode: frozenset(
        TAG + kind for kind in ("str", "int", "float", "bool", "null", "timestamp", "binary")
    ),
    yaml.SequenceNode: frozenset([TAG + "seq"]),
    yaml.MappingNode: frozenset([TAG + "map"]),
}


def load_yaml(text: str | bytes, *, file: str, error: type[InputError] = InputError) -> Node:
    """Return the one document in `text`; an empty one is a Scalar of None.

    Raises `error` with every problem: what `decode_source` refuses, syntax, duplicate keys, keys
    that are not scalars, tags that are not data, values nested more than 100 deep, and aliases that
    hold themselves or unfold to more than a million values.
    """
    return parse_yaml(decode_source(text, file=file, error=error), error=error)


@pause_garbage_collection()
def parse_yaml(
    source: Source,
    *,
    error: type[InputError] = InputError,
    most_values: int = MAX_VALUES,
    vault: bool = False,
) -> Node:
    """Return the one document in `source`, as `load_yaml` does, with at most `most_values` values.

    With `vault`, text that ansible-vault has encrypted is `Encrypted`, and not refused.
    """
    try:
        tree = yaml.compose(source.text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as failure:
        raise error.of([explain_syntax_error(failure, source)]) from failure
    if tree is None:
        return Scalar(source=source, line=1, col=1, value=None)
    builder = _Builder(source, most_values, vault=vault)
    try:
        node = builder.build(tree)
    except _TooLargeError as failure:
        raise error(str(failure), where=failure.where) from failure
    except _TooManyProblemsError as failure:
        raise error.of(builder.problems) from failure
    if builder.problems:
        raise error.of(builder.problems)
    return node


def _is_json(text: str) -> bool:
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        parse_json(text)
    except ValueError:
        return False
    return True


class _TooLargeError(Exception):
    """The document unfolds to more values than anyone writes by hand, at `where`."""

    def __init__(self, message: str, where: Where) -> None:
        super().__init__(message)
        self.where = where


class _TooManyProblemsError(Exception):
    """The document has more problems than anyone would read."""


class _Builder:
    """Converts each of PyYAML's nodes once into a `Node`, and collects the problems."""

    def __init__(self, source: Source, most_values: int, *, vault: bool) -> None:
        self.problems: list[Problem] = []
        self._source = source
        self._most_values = most_values
        self._vault = vault
        self._is_json = _is_json(source.text)
        self._constructor = yaml.constructor.SafeConstructor()
        self._resolver: Any = yaml.resolver.Resolver()
        self._built: dict[int, tuple[Node, int]] = {}
        self._open: list[int] = []
        self._count = 0

    def build(self, tree: yaml.Node, *, unsafe: bool = False) -> Node:
        """Return `tree` as our node; aliases of a list or a mapping share one."""
        self._count += 1
        if self._count > self._most_values:
            self._refuse_size(tree, f"the file contains more than {self._most_values:,} values")
        if isinstance(tree, yaml.ScalarNode):
            return self._scalar(tree, unsafe=unsafe)
        if built := self._built.get(id(tree)):
            self._count += built[1]
            if self._count > self._most_values:
                unfolded = f"aliases unfold to more than {self._most_values:,} values"
                self._refuse_size(tree, unfolded)
            return built[0]
        if refusal := self._refusal(tree) or self._foreign(tree.tag, type(tree)):
            return self._refuse(tree, *refusal)
        before = self._count
        self._open.append(id(tree))
        node = self._collection(tree, unsafe=unsafe or tree.tag == "!unsafe")
        self._open.pop()
        self._built[id(tree)] = node, self._count - before
        return node

    def _refusal(self, tree: yaml.Node) -> tuple[str, str | None] | None:
        if id(tree) in self._open:
            return "this value contains itself through an alias", None
        if len(self._open) >= MAX_DEPTH:
            return TOO_DEEP, None
        return None

    @staticmethod
    def _foreign(tag: str, kind: type[yaml.Node]) -> tuple[str, str | None] | None:
        if tag == "!unsafe" or tag in TAGS[kind]:
            return None
        if tag.startswith(VAULT):
            return f"ansible-vault encryption ({tag}) is not supported", ELSEWHERE
        return f"the tag {tag.replace(TAG, '!!')} is not supported", "remove the tag"

    def _refuse(self, tree: yaml.Node, message: str, hint: str | None = None) -> Scalar:
        scalar = self._leaf(tree, None)
        self.problems.append(Problem(message=message, where=scalar.where, hint=hint))
        if len(self.problems) >= MAX_PROBLEMS:
            raise _TooManyProblemsError
        return scalar

    def _refuse_size(self, tree: yaml.Node, message: str) -> NoReturn:
        raise _TooLargeError(message, self._leaf(tree, None).where)

    def _leaf(self, tree: yaml.Node, value: Any) -> Scalar:
        mark = tree.start_mark
        return Scalar(source=self._source, line=mark.line + 1, col=mark.column + 1, value=value)

    def _collection(self, tree: yaml.Node, *, unsafe: bool) -> Node:
        line = tree.start_mark.line + 1
        col = tree.start_mark.column + 1
        if isinstance(tree, yaml.MappingNode):
            entries = {key.value: (key, value) for key, value in self._merged(tree, unsafe=unsafe)}
            entries.update(self._build_entries(tree, unsafe=unsafe))
            return Map(source=self._source, line=line, col=col, entries=entries)
        items = tuple(self.build(item, unsafe=unsafe) for item in tree.value)
        return List(source=self._source, line=line, col=col, items=items)

    def _scalar(self, tree: yaml.ScalarNode, *, unsafe: bool) -> Scalar:
        tag = tree.tag
        if tag == STR and not unsafe and not self._is_json:
            return self._leaf(tree, tree.value)
        if self._vault and tag.startswith(VAULT):
            return self._leaf(tree, Encrypted(tree.value))
        if refusal := self._foreign(tag, yaml.ScalarNode):
            return self._refuse(tree, *refusal)
        if tag == "!unsafe":
            unsafe = True
            tag = self._resolver.resolve(yaml.ScalarNode, tree.value, (True, False))
        try:
            value = self._value(tree, tag)
        except (ValueError, OverflowError, LookupError, AttributeError, yaml.YAMLError):
            return self._refuse(tree, f"{tree.value[:40]!r} is not a valid {tag.removeprefix(TAG)}")
        return self._leaf(tree, Unsafe(value) if unsafe and isinstance(value, str) else value)

    def _value(self, tree: yaml.ScalarNode, tag: str) -> Any:
        if self._is_json and not tree.style:  # plain: a number or a word of JSON
            return parse_json(tree.value)
        value = self._constructor.yaml_constructors[tag](self._constructor, tree)
        str(value)  # an integer of 5,000 digits can be read and not be written
        return value

    def _build_entries(self, tree: yaml.MappingNode, *, unsafe: bool) -> dict[Any, Entry]:
        entries: dict[Any, Entry] = {}
        for key_tree, value_tree in tree.value:
            if key_tree.tag == TAG + "merge":
                continue
            if not isinstance(key_tree, yaml.ScalarNode):
                self._refuse(key_tree, "a key must be text, not a list or a mapping", QUOTE_HINT)
                continue
            problem_count = len(self.problems)
            key = self.build(key_tree)
            value = self.build(value_tree, unsafe=unsafe)
            if (
                isinstance(key, Scalar)
                and key.value in entries
                and len(self.problems) == problem_count
            ):
                first = entries[key.value][0].line
                message = f"duplicate key {key.value!r}, first set on line {first}"
                self._refuse(key_tree, message, "keep one of the two")
            elif isinstance(key, Scalar):
                entries[key.value] = key, value
        return entries

    def _merged(self, tree: yaml.MappingNode, *, unsafe: bool) -> Iterator[Entry]:
        for key_tree, value_tree in tree.value:
            if key_tree.tag != TAG + "merge":
                continue
            value = self.build(value_tree, unsafe=unsafe)
            for mapping in reversed(value.items if isinstance(value, List) else (value,)):
                if isinstance(mapping, Map):
                    yield from mapping.items()
                else:
                    self._refuse(value_tree, "<< must be followed by an alias to a mapping")
