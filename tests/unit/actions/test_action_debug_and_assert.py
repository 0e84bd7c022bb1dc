"""`assert`, `debug` and `set`: what touches no host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkfleet.actions.run_context import RunOptions
from sparkfleet.errors import PlaybookError
from sparkfleet.model import Outcome, Status
from tests.scenes import inventory, play

ONE = inventory(("spark-01",), color="green")


def _outcome(folder: Path, text: str, **settings: Any) -> Outcome:
    _, record = play(folder, text, hosts=ONE, **settings)
    return record.outcomes("it")["spark-01"]


def test_assert_names_the_first_expression_that_is_not_true(tmp_path: Path) -> None:
    text = "- name: it\n  assert: {that: [color == 'green', nodes == 9, nodes == 8]}\n"
    outcome = _outcome(tmp_path, text)
    assert (outcome.status, outcome.message) == (Status.FAILED, "not true: nodes == 9")


def test_assert_shows_its_messages(tmp_path: Path) -> None:
    text = "- name: it\n  assert: {that: %s, fail_msg: 'no {{ color }}', success_msg: fine}\n"
    assert _outcome(tmp_path, text % "nodes == 1").message == "fine"
    assert _outcome(tmp_path, text % "nodes == 2").message == "no green"


def test_assert_runs_under_check(tmp_path: Path) -> None:
    text = "- name: it\n  assert: {that: nodes == 2}\n"
    assert _outcome(tmp_path, text, options=RunOptions(check=True)).status is Status.FAILED


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("msg: '{{ color }}!'", "green!"),
        ("msg: [1, '{{ color }}']", '[\n  1,\n  "green"\n]'),
        ("var: color", "color: green"),
        ("var: color | upper", "color | upper: GREEN"),
        ("var: nothing", "nothing is not defined"),
        ("var: hostvars['spark-01'].color", "hostvars['spark-01'].color: green"),
        ("var: groups['sparks'] + group_names", '[\n  "spark-01",\n  "sparks"\n]'),
    ],
)
def test_debug_shows_texts_and_values(tmp_path: Path, args: str, message: str) -> None:
    outcome = _outcome(tmp_path, f"- name: it\n  debug:\n    {args}\n")
    assert outcome.status is Status.OK
    assert outcome.message.endswith(message)


def test_set_is_for_the_host_and_the_rest_of_the_run(tmp_path: Path) -> None:
    text = (
        "- hosts: sparks\n"
        "  vars: {a: play}\n"
        "  tasks:\n"
        "    - set: {a: 'set {{ rank }}', b: [1, 2]}\n"
        "- hosts: sparks\n"
        "  vars: {a: other}\n"
        "  tasks:\n"
        "    - name: it\n"
        "      debug: {msg: '{{ a }} {{ b | sum }}'}\n"
    )
    _, record = play(tmp_path, text)
    said = {name: one.message for name, one in record.outcomes("it").items()}
    assert said == {"spark-01": "set 0 3", "spark-02": "set 1 3"}


def test_what_the_command_line_set_wins(tmp_path: Path) -> None:
    text = "- set: {a: task}\n- name: it\n  debug: {var: a}\n"
    assert _outcome(tmp_path, text, given={"a": "typed"}).message == "a: typed"


def test_what_a_task_returned_is_never_a_template(tmp_path: Path) -> None:
    text = (
        "- command: [printf, '%s', '{{ \"{{ color }}\" }}']\n"
        "  register: r\n"
        "- set: {a: '{{ r.stdout }}'}\n"
        "- name: it\n"
        "  debug: {msg: '{{ a }}'}\n"
    )
    assert _outcome(tmp_path, text).message == "{{ color }}"


def test_a_variable_of_sparkfleet_is_checked_when_its_value_is_known(tmp_path: Path) -> None:
    with pytest.raises(PlaybookError, match="vllm_port: expected an integer from 1 to 65535"):
        play(tmp_path, "- set: {vllm_port: '{{ color }}'}\n", hosts=ONE)
