"""A recipe of sparkfleet as a YAML document, each value with its place in the file it is from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import yaml

from sparkfleet.errors import Problem, Where
from sparkfleet.recipes.foreign.draft import ConvertedMap, format_note
from sparkfleet.recipes.schema import KEYS
from sparkfleet.report.visible import escape_line
from sparkfleet.variables import VARIABLES
from sparkfleet.yaml.nodes import Entry, List, Map, Unsafe

FIRST = ("description", "source")
WIDEST = 60  # of a value with its place on the same line
PLAIN = re.compile(r"[A-Za-z0-9_.@][\w./@:+-]*")


class _OriginDumper(yaml.SafeDumper):
    """Writes text that looks like a template with a tag, so that it is never rendered."""


def _represent_unsafe(dumper: yaml.SafeDumper, value: Unsafe) -> yaml.Node:
    return dumper.represent_scalar("!unsafe", str(value), style="'")


_OriginDumper.add_representer(Unsafe, _represent_unsafe)


def format_imported_recipe(tree: ConvertedMap) -> str:
    """Return the recipe as YAML; a comment at each value names the line of their file.

    Its notes are written above it as comments.
    """
    file = tree.where.file
    lines = [*_format_notes(tree.notes, file)]
    names = [*FIRST, *VARIABLES, *(key for key in KEYS if key not in FIRST)]
    for name in names:
        node = tree.get(name)
        if name == "advice" and isinstance(node, List):
            node = _drop_notes(node, tree.notes)
        if node is not None:
            lines += _format_entry((tree.key(name), node), file)
    return "\n".join(lines) + "\n"


def _drop_notes(advice: List, notes: tuple[Problem, ...]) -> List | None:
    """Return the advice of their file alone, without the notes of the conversion."""
    texts = {format_note(note) for note in notes}
    items = tuple(item for item in advice.items if item.data not in texts)
    return replace(advice, items=items) if items else None


def format_place(where: Where | None, file: str) -> str:
    """Return a place as ``line 5``, with the name of its file where that is not `file`."""
    if where is None or not where.line:
        return ""
    other = "" if where.file == file else f"{PurePath(where.file).name}, "
    return f"{other}line {where.line}"


def _format_notes(notes: tuple[Problem, ...], file: str) -> Iterator[str]:
    for note in notes:
        place = format_place(note.where, file)
        text = escape_line(" ".join(note.message.split()))
        yield f"# {place}: {text}" if place else f"# {text}"


def _format_entry(entry: Entry, file: str, indent: str = "") -> Iterator[str]:
    name, node = entry
    key = _format_flow(name.data)
    if isinstance(node, Map) and not indent:
        yield f"{key}:"
        for inner in node.items():
            yield from _format_entry(inner, file, "  ")
        return
    text = f"{indent}{key}: {_format_flow(node.data)}"
    place = format_place(name.where, file)
    if place and name.data not in FIRST:
        text = f"{text}  # {place}" if len(text) <= WIDEST else f"{indent}# {place}\n{text}"
    yield from text.splitlines()


def _format_flow(data: Any) -> str:
    """Return a value on one line."""
    if isinstance(data, Unsafe) and not looks_like_template(data):
        data = str(data)
    if isinstance(data, Mapping):
        items = (f"{_format_flow(key)}: {_format_flow(value)}" for key, value in data.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(data, list | tuple):
        return "[" + ", ".join(_format_flow(item) for item in data) + "]"
    text: str = yaml.dump(data, Dumper=_OriginDumper, default_flow_style=True, width=10_000)
    return text.removesuffix("\n").removesuffix("\n...").strip()


def looks_like_template(text: str) -> bool:
    """Return whether a text would be rendered as a template."""
    return any(mark in text for mark in ("{{", "{%", "{#"))
