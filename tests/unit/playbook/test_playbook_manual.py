"""The manual of the actions is made from what they declare, and the document has it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from sparkfleet.playbook import manual
from sparkfleet.playbook.keywords import ANSIBLE_ONLY, BLOCK_KEYS, PLAY_KEYS, TASK_KEYS
from sparkfleet.playbook.vocabulary import ACTIONS

DOCUMENT = Path(__file__).parents[3] / "docs" / "playbooks.md"
BEGIN, END = "<!-- begin: invoke playbook.actions --markdown -->\n", "<!-- end -->"


def test_the_document_holds_the_manual() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert (
        text.partition(BEGIN)[2].partition(END)[0].strip()
        == manual.format_markdown_manual().strip()
    )


@pytest.mark.parametrize("keys", [PLAY_KEYS, BLOCK_KEYS])
def test_the_document_names_every_keyword(keys: tuple[str, ...]) -> None:
    assert " ".join(keys) in DOCUMENT.read_text(encoding="utf-8")


def test_the_document_names_every_keyword_of_a_task() -> None:
    name, *others = TASK_KEYS
    assert f"`{name}`, one action, `{' '.join(others)}`" in DOCUMENT.read_text(encoding="utf-8")


@pytest.mark.parametrize("word", ACTIONS)
def test_an_action_goes_by_its_word_and_documents_its_arguments(word: str) -> None:
    action = ACTIONS[word]
    assert action.name == word
    assert action.__doc__
    for field in dataclasses.fields(action.args_type):
        assert field.metadata["help"]


def test_no_own_keyword_is_explained_as_ansibles() -> None:
    assert not set(ANSIBLE_ONLY) & {*PLAY_KEYS, *BLOCK_KEYS, *TASK_KEYS, *ACTIONS} - {"vars"}
