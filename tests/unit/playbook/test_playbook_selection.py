"""`--tags`, `--skip-tags` and `--start-at` choose tasks as Ansible does."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkfleet.errors import UsageError
from sparkfleet.playbook.parse import load_playbook
from sparkfleet.playbook.selection import Selection, select_tasks
from sparkfleet.playbook.syntax import Play, iterate_tasks

BOOK = """
- name: first
  hosts: sparks
  tags: base
  tasks:
    - {name: plain, debug: {msg: x}}
    - {name: red, tags: red, debug: {msg: x}}
    - name: block
      tags: [blue]
      block:
        - {name: inner, debug: {msg: x}}
        - {name: last, tags: red, debug: {msg: x}}
      rescue:
        - {name: mend, debug: {msg: x}}
      always:
        - {name: tidy, tags: always, debug: {msg: x}}
- name: second
  hosts: sparks
  tasks:
    - {name: untagged, debug: {msg: x}}
    - {name: danger, tags: [never, red], debug: {msg: x}}
"""


@pytest.fixture
def plays(tmp_path: Path) -> tuple[Play, ...]:
    path = tmp_path / "play.yml"
    path.write_text(BOOK)
    return load_playbook(path)


def _names(plays: tuple[Play, ...], **asked: object) -> str:
    words = {
        name: frozenset(str(value).split()) if name != "start_at" else value
        for name, value in asked.items()
    }
    chosen = select_tasks(plays, Selection(**words))  # type: ignore[arg-type]  # text by name
    return " ".join(task.name for play in chosen for task in iterate_tasks(play.tasks))


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({}, "plain red inner last mend tidy untagged"),
        ({"tags": "red"}, "red last tidy danger"),
        ({"tags": "blue"}, "inner last mend tidy"),
        ({"tags": "base"}, "plain red inner last mend tidy"),
        ({"tags": "untagged"}, "tidy untagged"),
        ({"tags": "tagged"}, "plain red inner last mend tidy"),
        ({"tags": "never"}, "tidy danger"),
        ({"tags": "all"}, "plain red inner last mend tidy untagged"),
        ({"skip_tags": "red"}, "plain inner mend tidy untagged"),
        ({"skip_tags": "always"}, "plain red inner last mend untagged"),
        ({"skip_tags": "tagged"}, "untagged"),
        ({"skip_tags": "all"}, "tidy"),
        ({"tags": "red", "skip_tags": "blue"}, "red danger"),
        ({"start_at": "last"}, "last mend tidy untagged"),
        ({"start_at": "inn*"}, "inner last mend tidy untagged"),
        ({"start_at": "untagged"}, "untagged"),
        ({"start_at": "last", "skip_tags": "always"}, "last mend untagged"),
    ],
)
def test_tasks_are_chosen(plays: tuple[Play, ...], asked: dict[str, object], names: str) -> None:
    assert _names(plays, **asked) == names


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"tags": "rde"}, "no task has the tag 'rde'"),
        ({"skip_tags": "nope"}, "no task has the tag 'nope'"),
        ({"start_at": "lst"}, "task 'lst' not found"),
        ({"start_at": "mend"}, "task 'mend' not found"),
        ({"tags": "untagged", "skip_tags": "untagged always"}, "no task is selected"),
    ],
)
def test_what_selects_nothing_is_an_error(
    plays: tuple[Play, ...], asked: dict[str, object], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        _names(plays, **asked)
