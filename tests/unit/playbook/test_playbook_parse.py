"""Playbooks read like Ansible's, and every mistake in one is reported at once with its place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.errors import PlaybookError, Problem
from sparkfleet.playbook.parse import MAX_TASKS, load_playbook
from sparkfleet.playbook.syntax import Block, Play, Task, iterate_tasks, strip_positions
from sparkfleet.yaml.positions import MAX_PROBLEMS

SHIPPED = Path(__file__).parents[3] / "playbooks"


def _write(folder: Path, text: str) -> Path:
    path = folder / "play.yml"
    path.write_text(text)
    return path


def _fails(folder: Path, text: str) -> PlaybookError:
    with pytest.raises(PlaybookError) as caught:
        load_playbook(_write(folder, text))
    return caught.value


def _play(folder: Path, text: str) -> Play:
    (play,) = load_playbook(_write(folder, text))
    return play


def _tasks(text: str) -> str:
    return "- hosts: sparks\n  tasks:\n" + "".join(f"    {line}\n" for line in text.splitlines())


def _task(folder: Path, text: str) -> Task:
    (task,) = _play(folder, _tasks(text)).tasks
    assert isinstance(task, Task)
    return task


def _args(folder: Path, text: str) -> Mapping[str, Any]:
    return strip_positions(_task(folder, text).args)


def _problem(folder: Path, text: str) -> Problem:
    (problem,) = _fails(folder, _tasks(text)).problems
    return problem


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.yml")), ids=lambda path: path.stem)
def test_every_shipped_playbook_is_read(path: Path) -> None:
    (play,) = load_playbook(path)
    assert play.hosts == "sparks"
    assert play.tasks


def test_a_task_keeps_its_keywords(tmp_path: Path) -> None:
    task = _task(
        tmp_path,
        "- name: Ray\n"
        "  command: {cmd: ray start}\n"
        "  when: [nodes > 1, rank == 0]\n"
        "  tags: [ray, start]\n"
        "  register: ray\n"
        "  until: ray.changed\n"
        "  delay: 0.5\n"
        "  no_log: true\n",
    )
    assert strip_positions(task.args) == {"cmd": "ray start"}
    assert [one.text for one in task.when] == ["nodes > 1", "rank == 0"]
    assert task.tags == {"ray", "start"}
    assert (task.register, task.no_log, task.retries, task.delay) == ("ray", True, 3, 0.5)
    assert task.when[1].where is not None
    assert str(task.when[1].where).endswith("play.yml:5:25")


def test_a_block_has_tasks_of_its_own_for_rescue_and_always(tmp_path: Path) -> None:
    play = _play(
        tmp_path,
        _tasks("- block:\n    - lock:\n  rescue:\n    - survey:\n  always:\n    - gather_facts:\n"),
    )
    (block,) = play.tasks
    assert isinstance(block, Block)
    assert [len(part) for part in (block.block, block.rescue, block.always)] == [1, 1, 1]


def test_tasks_take_over_conditions_tags_and_become_from_around(tmp_path: Path) -> None:
    play = _play(
        tmp_path,
        "- hosts: sparks\n"
        "  tags: play\n"
        "  become: true\n"
        "  tasks:\n"
        "    - when: a\n"
        "      tags: [outer]\n"
        "      block:\n"
        "        - when: b\n"
        "          block:\n"
        "            - command: one\n"
        "              when: c\n"
        "              tags: inner\n"
        "        - command: two\n"
        "          become: false\n"
        "      always:\n"
        "        - debug: {msg: x}\n",
    )
    one, two, three = iterate_tasks(play.tasks)
    assert [condition.text for condition in one.when] == ["a", "b", "c"]
    assert one.tags == {"play", "outer", "inner"}
    assert [strip_positions(task.args).get("become") for task in (one, two, three)] == [
        True,
        False,
        None,
    ]
    assert [condition.text for condition in three.when] == ["a"]


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("- command: ls -l", {"cmd": "ls -l"}),
        ("- command: [ls, -l]", {"argv": ["ls", "-l"]}),
        ("- command: {argv: [ls], chdir: /tmp}", {"argv": ["ls"], "chdir": "/tmp"}),
        ("- command: ls\n  args: {creates: /a}", {"cmd": "ls", "creates": "/a"}),
        ("- shell: ls | wc", {"cmd": "ls | wc"}),
        ("- ansible.builtin.command: ls", {"cmd": "ls"}),
        ("- set: {a: 1, b: [2]}", {"values": {"a": 1, "b": [2]}}),
        ("- command: {cmd: ls, chdir: }", {"cmd": "ls"}),
    ],
)
def test_arguments_are_written_as_in_ansible(
    tmp_path: Path, text: str, args: Mapping[str, Any]
) -> None:
    assert _args(tmp_path, text) == args


def test_cluster_up_stands_for_the_tasks_of_the_shipped_playbook(tmp_path: Path) -> None:
    (shipped,) = load_playbook(SHIPPED / "cluster-up.yml")
    (block,) = _play(tmp_path, _tasks("- cluster_up:\n  when: x\n  tags: up\n")).tasks
    assert isinstance(block, Block)
    assert [task.action for task in iterate_tasks(block.block)] == [
        task.action for task in iterate_tasks(shipped.tasks)
    ]
    for task, original in zip(
        iterate_tasks(block.block), iterate_tasks(shipped.tasks), strict=True
    ):
        assert [one.text for one in task.when] == ["x", *(one.text for one in original.when)]
        assert task.tags == {"up"}


def test_a_project_has_its_own_cluster_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "playbooks").mkdir()
    own = tmp_path / "playbooks" / "cluster-up.yml"
    own.write_text(_tasks("- debug: {msg: mine}"))
    (block,) = _play(tmp_path, _tasks("- cluster_up:")).tasks
    assert [task.action for task in iterate_tasks([block])] == ["debug"]
    own.write_text(_tasks("- cluster_up:"))
    assert "includes itself" in str(_fails(tmp_path, _tasks("- cluster_up:")))


def test_every_mistake_is_reported_at_once_with_its_place(tmp_path: Path) -> None:
    error = _fails(
        tmp_path,
        "- name: x\n"
        "  hosts: sparks\n"
        "  vars: {vllm_prot: 1, vllm_port: high}\n"
        "  tasks:\n"
        "    - smoek:\n"
        "    - start_ray: {role: middle}\n"
        "    - name: loops\n"
        "      smoke:\n"
        "      loop: [1, 2]\n"
        "    - smoke:\n"
        "      serve:\n"
        "    - debug: {msg: '{{ x '}\n"
        "    - debug: {msg: x}\n"
        "      when: a ==\n"
        "    - wait_tcp: {host: x}\n",
    )
    result: dict[int | None, str] = {}
    for problem in error.problems:
        line = problem.where.line if problem.where else None
        result[line] = result.get(line, "") + str(problem)
    assert set(result) == {3, 5, 6, 9, 10, 12, 14, 15}
    assert "did you mean 'vllm_port'?" in result[3]
    assert "vllm_port: expected an integer from 1 to 65535" in result[3]
    assert "did you mean 'smoke'?" in result[5]
    assert "role: expected one of head, workers (got 'middle')" in result[6]
    assert "loops are not supported" in result[9]
    assert "exactly one action" in result[10]
    assert "Jinja syntax" in result[12]
    assert "when: 'a =='" in result[14]
    assert "wait_tcp requires the argument 'port'" in result[15]
    assert error.exit_code == 5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- command: true", "command: True is not a string"),
        ("- copy: src=a dest=b", "the arguments of copy must be a mapping"),
        ("- copy: {src: a, dest: b}", "dest must begin with / or ~ (got 'b')"),
        ("- copy: {dest: /b}", "requires either src or content"),
        ("- copy: {content: x, dest: /b, mode: 0644}", "mode: expected text in quotes (got 420)"),
        ("- copy: {content: x, dest: /b, mode: '0999'}", "mode must be permissions"),
        ("- command: ls creates=/x", "make creates a task argument"),
        ("- command: ls $HOME", "'$HOME' is not expanded; use shell"),
        ("- command: ls ~/vllm", "'~/vllm' is not expanded"),
        ("- command: ls 'x", "cannot be split into words"),
        ("- command: {cmd: ls, argv: [ls]}", "requires either cmd or argv"),
        ("- command: {cmd: ls, timeout: 0}", "timeout must be >= 1 second (got 0)"),
        ("- command: {cmd: ls, become: maybe}", "become: expected true or false (got 'maybe')"),
        ("- wait_tcp: {port: 99999}", "port must be between 1 and 65535 (got 99999)"),
        ("- wait_http: {url: localhost}", "url must begin with http"),
        ("- pause: {seconds: soon}", "seconds: expected a number >= 0 (got 'soon')"),
        ("- pause:", "requires seconds, minutes or prompt"),
        ("- assert: {that: x ==}", "that: 'x =='"),
        ("- debug: {}", "requires either msg or var"),
        ("- set: {vllm_prot: 1}", "unknown variable vllm_prot"),
        ("- set: {a b: 1}", "is not a valid variable name"),
        ("- file: {path: /a, state: gone}", "state: expected one of"),
        ("- smoke: {x: 1}", "smoke has no argument 'x'"),
        ("- smoke:\n  run_once: true", "smoke works on the whole cluster"),
        ("- smoke:\n  become: true", "smoke does not support become"),
        ("- smoke:\n  register: a-b", "'a-b' is not a valid variable name"),
        ("- smoke:\n  when: '{{ x }}'", "without braces"),
        ("- smoke:\n  when: {a: b}", "when: expected an expression (got {'a': 'b'})"),
        ("- smoke:\n  retries: -1", "retries: expected a number >= 0 (got -1)"),
        ("- smoke:\n  tags: {a: b}", "tags: expected a list of words"),
        ("- cluster_up: {tp: 2}", "cluster_up takes no arguments"),
        ("- cluster_up: {tp: 2}", "give --tp, --recipe and --limit on the command line"),
        ("- cluster_up:\n  register: x", "unknown key 'register' in cluster_up, which"),
        ("- set_fact: {a: 1}", "use `set`"),
        ("- ansible.builtin.apt: {name: jq}", "not supported; use `command`"),
        ("- command: ls\n  failed_when: false", "use register, and `assert`"),
    ],
)
def test_a_mistake_is_explained(tmp_path: Path, text: str, said: str) -> None:
    problem = _problem(tmp_path, text)
    assert said in str(problem)
    assert problem.where is not None
    assert problem.where.line in (3, 4)


@pytest.mark.parametrize(
    "text",
    ["", "x: 1\n", "- 1\n", "- hosts: a\n", "- hosts: a\n  tasks: 5\n", "- hosts: a\n  tasks:\n"],
)
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    assert _fails(tmp_path, text).problems


def test_facts_are_not_gathered_behind_ones_back(tmp_path: Path) -> None:
    text = "- hosts: a\n  gather_facts: {}\n  tasks:\n    - survey:\n"
    assert load_playbook(_write(tmp_path, text.format("false")))
    assert "write a task: gather_facts:" in str(_fails(tmp_path, text.format("true")))


def test_of_plays_that_are_none_the_first_thousand_are_reported(tmp_path: Path) -> None:
    problems = _fails(tmp_path, "- a\n" * 3000).problems
    assert len(problems) == MAX_PROBLEMS
    assert [problem.where and problem.where.line for problem in problems[:2]] == [1, 2]


@pytest.mark.parametrize("line", ["- debug: {msg: x}", "- cluster_up:"])
def test_a_playbook_of_too_many_tasks_is_refused_once(tmp_path: Path, line: str) -> None:
    problem = _problem(tmp_path, "\n".join([line] * (MAX_TASKS + 3)))
    assert problem.message == f"a playbook can have at most {MAX_TASKS} tasks"
    assert problem.hint == "split it into several playbooks"
