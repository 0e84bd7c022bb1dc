"""A receipt says how a cluster was started, so that a watcher can do the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.cli.cluster.watching.relaunch import build_start_options
from sparkfleet.cli.options import Options
from sparkfleet.errors import LaunchError
from sparkfleet.launch.watching.start_request import (
    StartRequest,
    choose_start_request,
    parse_start_request,
)

RECEIPT = {"recipe": "gpt-oss-20b", "hosts": ["a", "b"], "tp": 2, "pp": 1, "degraded": ""}


def test_a_receipt_becomes_a_request() -> None:
    receipt = {**RECEIPT, "set": {"vllm_port": 8001}, "recipe_file": "/home/u/my.yml"}
    assert parse_start_request(json.dumps(receipt)) == StartRequest(
        recipe="gpt-oss-20b",
        recipe_file="/home/u/my.yml",
        hosts=("a", "b"),
        tp=2,
        given={"vllm_port": 8001},
    )


def test_a_receipt_of_an_older_version_has_no_variables() -> None:
    assert parse_start_request(json.dumps(RECEIPT)) == StartRequest(
        recipe="gpt-oss-20b", hosts=("a", "b"), tp=2
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"tp": "2"},
        {"tp": 0},
        {"pp": True},
        {"hosts": "a"},
        {"hosts": [1]},
        {"recipe": ""},
        {"recipe": 5},
        {"set": []},
        {"degraded": ["x"]},
    ],
)
def test_a_receipt_of_another_shape_is_refused(wrong: Any) -> None:
    assert parse_start_request(json.dumps({**RECEIPT, **wrong})) is None


REQUEST = StartRequest(recipe="gpt-oss-20b", run="r1", recipe_file="/etc/x.yml", tp=2)


def test_the_form_of_a_receipt_is_read_as_it_was_written() -> None:
    request = replace(REQUEST, hosts=("a", "b"), given={"vllm_port": 1}, degraded="one cable")
    assert parse_start_request(json.dumps(request.data())) == request


def test_a_head_that_is_this_machine_is_believed() -> None:
    assert choose_start_request(REQUEST, None, host="a", local=True) == REQUEST


def test_of_another_host_only_a_name_of_the_catalogue_is_taken() -> None:
    chosen = choose_start_request(REQUEST, None, host="a", local=False)
    assert chosen == replace(REQUEST, recipe_file="")


def test_the_copy_of_this_machine_is_taken_if_it_is_of_the_same_run() -> None:
    own = replace(REQUEST, given={"vllm_port": 1})
    assert choose_start_request(REQUEST, own, host="a", local=False) == own
    other = replace(own, run="r2")
    assert choose_start_request(REQUEST, other, host="a", local=False).given == {}


def test_the_copy_of_a_later_run_that_changed_nothing_is_taken() -> None:
    receipt = replace(REQUEST, given={"vllm_executor": "mp"}, recipe="mine")
    again = replace(receipt, run="r2", recipe_file="/home/u/mine.yml")
    assert choose_start_request(receipt, again, host="a", local=False) == again
    other = replace(again, given={"vllm_executor": "ray"})
    with pytest.raises(LaunchError, match="started on another machine"):
        choose_start_request(receipt, other, host="a", local=False)


@pytest.mark.parametrize(
    "receipt",
    [
        replace(REQUEST, given={"vllm_env": {"X": "{{ lookup('env', 'HOME') }}"}}),
        replace(REQUEST, recipe="../../etc/x.yml"),
        replace(REQUEST, recipe="x.yml"),
        replace(REQUEST, recipe="/etc/x"),
    ],
)
def test_a_host_chooses_no_files_and_variables_of_this_machine(receipt: StartRequest) -> None:
    with pytest.raises(LaunchError, match="started on another machine"):
        choose_start_request(receipt, None, host="a", local=False)


def test_without_a_receipt_a_person_must_start_it() -> None:
    with pytest.raises(LaunchError, match="no receipt"):
        choose_start_request(None, REQUEST, host="a", local=False)


@pytest.mark.parametrize("text", [None, "", "{", "[]", '"text"'])
def test_a_text_without_an_object_is_refused(text: str | None) -> None:
    assert parse_start_request(text) is None


def test_the_options_are_those_of_the_start(tmp_path: Path) -> None:
    file = tmp_path / "my.yml"
    request = StartRequest(
        recipe="mine", recipe_file=str(file), hosts=("b", "a"), tp=2, given={"vllm_port": 8001}
    )
    options = Options(task="cluster.watch", inventory=("x.yml",), variables={"vllm_port": 1})
    built = build_start_options(options, request)
    assert (built.recipe, built.limit, built.tp, built.yes) == ("mine", "b,a", 2, True)
    assert built.variables == {"vllm_port": 8001}
    assert built.inventory == ("x.yml",)
    file.touch()
    assert build_start_options(options, request).recipe == str(file)
