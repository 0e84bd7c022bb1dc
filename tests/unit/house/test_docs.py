"""What the documents tell to type can be typed, and where they point to is there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from invoke.parser import Parser

from sparkfleet.cli.tasks import namespace

CHECKOUT = Path(__file__).parents[3]
DOCUMENTS = sorted([CHECKOUT / "README.md", *(CHECKOUT / "docs").glob("*.md")])
LINK = re.compile(r"\]\((?!http)([^)#]*)(?:#([^)]*))?\)")
TYPED = re.compile(r"(?:invoke|sparkfleet) ([a-z]+\.[a-z]+[^`|>#<]*)")


def _anchors(document: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    bare = (re.sub(r"[^\w\- ]", "", title.lower()) for title in titles)
    return {title.replace(" ", "-") for title in bare}


def _typed(document: Path) -> Iterator[str]:
    for line in document.read_text().splitlines():
        for words in TYPED.findall(line):
            command = words.split("   ")[0].strip().rstrip(".,;:)")
            if "--help" not in command:
                yield command


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_somewhere(document: Path) -> None:
    for name, anchor in LINK.findall(document.read_text()):
        target = (document.parent / name).resolve() if name else document
        assert target.exists(), name
        assert not anchor or anchor in _anchors(target), f"{name}#{anchor}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_can_be_typed(document: Path) -> None:
    for command in _typed(document):
        Parser(contexts=namespace.to_contexts()).parse_argv(shlex.split(command))


def test_the_table_of_the_readme_has_every_task() -> None:
    table = [line for line in (CHECKOUT / "README.md").read_text().splitlines() if line[:2] == "| "]
    named = set()
    for line in table:
        group = ""
        for word in re.findall(r"`([a-z]*(?:\.[a-z]+)?)[ `]", line.split("|")[1]):
            group = word.split(".")[0] or group
            named.add(f"{group}.{word.split('.')[1]}" if "." in word else word)
    told = {name for name in namespace.task_names if name not in named}
    assert told == set()
