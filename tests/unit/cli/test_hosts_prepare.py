"""playbooks/hosts-prepare.yml: each change is shown before it is made, and is narrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sparkfleet.launch.preflight.page_cache import DROP_COMMAND

PLAYBOOK = Path(__file__).parents[3] / "playbooks" / "hosts-prepare.yml"
(PLAY,) = yaml.safe_load(PLAYBOOK.read_text())
TASKS: list[dict[str, Any]] = PLAY["tasks"]
ADVICE = [task for task in TASKS if task["name"].startswith("By hand: ")]
TOLD = [task for task in TASKS if "debug" in task and task not in ADVICE]
CHANGES = [task for task in TASKS if "debug" not in task and "gather_facts" not in task]


@pytest.mark.parametrize("task", TOLD + ADVICE, ids=lambda task: task["tags"])
def test_a_change_is_shown_with_its_reason_and_its_undo(task: dict[str, Any]) -> None:
    command, *rest = task["debug"]["msg"].splitlines()
    assert command
    assert any(line.startswith("why: ") for line in rest)
    assert rest[-1].startswith("undo: ")


def test_everything_is_shown_before_the_first_change() -> None:
    first = TASKS.index(CHANGES[0])
    assert all(TASKS.index(task) < first for task in TOLD)
    assert [task["tags"] for task in TOLD] == [task["tags"] for task in CHANGES]
    assert {task["tags"] for task in TOLD} == {
        "weights", "linger", "caches", "docker", "gpu", "cdi",
    }  # fmt: skip


def test_what_may_harm_others_is_advice_only() -> None:
    assert [task["tags"] for task in ADVICE] == ["ipc", "owner", "earlyoom"]
    assert not {task["tags"] for task in ADVICE} & {task["tags"] for task in CHANGES}


def test_the_rule_allows_the_command_of_drop_caches_and_no_other() -> None:
    (copy,) = [task["copy"] for task in CHANGES if "copy" in task]
    comment, rule, *rest = copy["content"].splitlines()
    shell, *words = DROP_COMMAND
    assert PLAY["vars"]["drop"] == " ".join(words)
    assert comment.startswith("# ")
    assert rest == []
    user, _, allowed = rule.partition(" ALL=(root) NOPASSWD: ")
    assert user == "{{ ansible_user_id }}"
    assert allowed.split(", ") == [
        f"{path}/{shell} {{{{ drop }}}}" for path in ("/bin", "/usr/bin")
    ]
    assert (copy["mode"], copy["validate"]) == ("0440", "/usr/sbin/visudo -cf %s")


def test_only_the_folder_is_made_without_sudo() -> None:
    assert [task["tags"] for task in CHANGES if not task.get("become")] == ["weights"]
