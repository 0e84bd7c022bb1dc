"""Playbooks read like Ansible's, and every mistake in one is told at once with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkfleet.errors import PlaybookError
from sparkfleet.playbook.parse import load
from sparkfleet.playbook.syntax import Block, Task

SHIPPED = Path(__file__).parents[2] / "playbooks"


def _load(tmp_path: Path, text: str) -> PlaybookError:
    path = tmp_path / "play.yml"
    path.write_text(text)
    with pytest.raises(PlaybookError) as caught:
        load(path)
    return caught.value


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.yml")), ids=lambda path: path.stem)
def test_every_shipped_playbook_is_read(path: Path) -> None:
    (play,) = load(path)
    assert play.hosts == "sparks"
    assert play.tasks


def test_a_task_keeps_its_keywords(tmp_path: Path) -> None:
    path = tmp_path / "play.yml"
    path.write_text(
        "- hosts: sparks\n"
        "  tasks:\n"
        "    - name: Ray\n"
        "      start_ray: {role: head}\n"
        "      when: [nodes > 1, rank == 0]\n"
        "      tags: [ray, start]\n"
        "      register: ray\n"
        "      no_log: true\n"
    )
    (play,) = load(path)
    (task,) = play.tasks
    assert isinstance(task, Task)
    assert task.args == {"role": "head"}
    assert task.when == ("nodes > 1", "rank == 0")
    assert task.tags == {"ray", "start"}
    assert (task.register, task.no_log) == ("ray", True)


def test_blocks_nest(tmp_path: Path) -> None:
    path = tmp_path / "play.yml"
    path.write_text(
        "- hosts: sparks\n"
        "  tasks:\n"
        "    - block:\n"
        "        - smoke:\n"
        "      rescue:\n"
        "        - survey:\n"
        "      always:\n"
        "        - receipt:\n"
    )
    (play,) = load(path)
    (block,) = play.tasks
    assert isinstance(block, Block)
    assert [len(part) for part in (block.block, block.rescue, block.always)] == [1, 1, 1]


def test_every_mistake_is_told_at_once_with_its_place(tmp_path: Path) -> None:
    error = _load(
        tmp_path,
        "- name: x\n"
        "  hosts: sparks\n"
        "  tasks:\n"
        "    - smoek:\n"
        "    - start_ray: {role: middle}\n"
        "    - name: loops\n"
        "      smoke:\n"
        "      loop: [1, 2]\n"
        "    - smoke:\n"
        "      serve:\n",
    )
    told = {(p.where.line if p.where else None): str(p) for p in error.problems}
    assert set(told) == {4, 5, 8, 9}
    assert "did you mean smoke?" in str(error)
    assert "role is one of head, workers, not 'middle'" in told[5]
    assert "no loops" in told[8]
    assert "one action" in told[9]
    assert error.exit_code == 5


@pytest.mark.parametrize(
    "text", ["", "x: 1\n", "- 1\n", "- hosts: a\n", "- hosts: a\n  tasks: 5\n"]
)
def test_what_is_no_playbook_is_refused(tmp_path: Path, text: str) -> None:
    assert _load(tmp_path, text).problems
