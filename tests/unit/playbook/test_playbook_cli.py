"""`playbook.run` from the command line: exit codes, what is printed where, what is listed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from sparkfleet.cli.options import Options, parse_options
from sparkfleet.cli.playbook.run_playbook import run_playbook
from sparkfleet.errors import InputError
from tests.commandline import run_command

ROOT = Path(__file__).parents[3]
INVENTORY = """
sparks:
  hosts: {spark-01: {}, spark-02: {}, spark-03: {}}
  vars: {ansible_connection: local}
routers: {hosts: {edge: {ansible_connection: local}}}
"""
FAR = "sparks: {hosts: {spark-01: {ansible_host: 192.0.2.1}, spark-02: {ansible_host: 192.0.2.2}}}"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a project with an inventory of local hosts, and a home of its own."""
    (tmp_path / "inventory.yml").write_text(INVENTORY)
    (tmp_path / "far.yml").write_text(FAR)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def _run(project: Path, tasks: str, *, hosts: str = "sparks", **options: Any) -> int:
    (project / "p.yml").write_text(f"- hosts: {hosts}\n  tasks: {tasks}\n")
    options.setdefault("inventory", ["inventory.yml"])
    parsed = parse_options(Options, "playbook.run", options, whole_cluster=True)
    return run_playbook("p.yml", parsed)


def _typed(*words: str) -> subprocess.CompletedProcess[str]:
    return run_command(*words)


def test_a_playbook_without_the_cluster_needs_no_recipe(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(project, "[{debug: {msg: hi}}]") == 0
    said = capsys.readouterr().out
    assert said.startswith("playbook.run  inventory inventory.yml\n")
    assert "ok: [spark-03] => hi" in said


def test_a_failed_host_ends_with_2(project: Path) -> None:
    assert _run(project, "[{command: 'false'}]") == 2


@pytest.mark.parametrize(
    ("tasks", "options"),
    [
        ("[{nope: }]", {}),
        ("[{debug: {msg: x}}]", {"limit": "nobody"}),
        ("[{debug: {msg: x}}]", {"tags": ["nope"]}),
        ("[{debug: {msg: x}}]", {"start_at": "nope"}),
        ("[{debug: {msg: x}}]", {"output": "xml"}),
        ("[{debug: {msg: x}}]", {"inventory": ["none.yml"]}),
        ("[{debug: {msg: x}}]", {"junit": "none/x.xml"}),
        ("[{debug: {msg: x}}]", {"trace": "none/x.json"}),
        ("[{cluster_up: }]", {}),
        ("[{smoke: }]", {}),
        ("[{survey: }]", {"recipe": "nope"}),
    ],
)
def test_what_is_wrong_before_the_first_host_ends_with_5(
    project: Path, tasks: str, options: dict[str, Any]
) -> None:
    with pytest.raises(InputError) as caught:
        _run(project, tasks, **options)
    assert caught.value.exit_code == 5
    assert not (project / "state").exists()


def test_json_is_the_only_thing_on_standard_output(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(project, "[{command: echo hi}, {command: 'false'}]", output="json") == 2
    content = json.loads(capsys.readouterr().out)
    assert content["sparkfleet"] == 1
    assert content["exit_code"] == 2
    one, two = content["plays"][0]["tasks"]
    assert one["hosts"]["spark-02"]["data"]["stdout"] == "hi"
    assert two["hosts"]["spark-01"]["status"] == "failed"
    assert Path(content["log"], "run.log").read_text().count("stdout: hi") == 3


def test_json_has_errors_too(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError):
        _run(project, "[{nope: }, {debug: {}}]", output="json")
    content = json.loads(capsys.readouterr().out)
    assert content["exit_code"] == 5
    assert [(one["file"], one["line"]) for one in content["errors"]] == [("p.yml", 2)] * 2


def test_an_error_in_the_middle_is_in_the_log(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError):
        _run(project, "[{debug: {msg: '{{ nothing }}'}}]")
    (log,) = (project / "state").rglob("run.log")
    assert "'nothing' is undefined" in log.read_text()


def test_junit_is_written_where_it_was_asked_for(project: Path) -> None:
    assert _run(project, "[{command: 'false'}]", junit="r.xml") == 2
    (suite,) = ET.parse(project / "r.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("3", "3")


def test_a_trace_has_the_tasks_and_every_host(project: Path) -> None:
    tasks = "[{name: one, debug: {msg: x}}, {name: two, command: 'false'}]"
    assert _run(project, tasks, trace="t.json") == 2
    content = json.loads((project / "t.json").read_text())
    assert content["otherData"]["exit_code"] == 2
    spans = [entry for entry in content["traceEvents"] if entry["ph"] == "X"]
    assert [entry["name"] for entry in spans if entry["tid"] == 0] == ["one", "two"]
    assert {entry["tid"] for entry in spans if entry["name"] == "two"} == {0, 1, 2, 3}


def test_lists_touch_no_host(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options: dict[str, Any] = {"inventory": ["far.yml"], "list_tasks": True, "list_hosts": True}
    tasks = "[{name: one, command: ls, tags: [b, a]}, {cluster_up: , tags: up}]"
    assert _run(project, tasks, recipe="lab-tiny", **options) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        "playbook: p.yml\n\n"
        "  play #1 (sparks): sparks\tTAGS: []\n"
        "    pattern: sparks\n"
        "    hosts (2):\n"
        "      spark-01\n"
        "      spark-02\n"
        "    tasks:\n"
        "      one\tTAGS: [a, b]\n"
        "      Take the lock of the cluster\tTAGS: [up]\n"
    )
    assert _run(project, tasks, recipe="lab-tiny", output="json", **options) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["plays"][0]["hosts"] == ["spark-01", "spark-02"]


def test_the_cluster_is_as_large_as_tp_says_and_leaves_out_the_other_sparks(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = "[{debug: {msg: 'of {{ nodes }}'}}, {survey: , when: false}]"
    cases: tuple[tuple[dict[str, Any], list[str]], ...] = (
        ({"tp": "2"}, ["spark-01", "spark-02"]),
        ({}, ["spark-01", "spark-02", "spark-03"]),
        ({"limit": "!spark-02"}, ["spark-01", "spark-03"]),
    )
    for options, said in cases:
        assert _run(project, tasks, recipe="lab-tiny", **options) == 0
        result = [line for line in capsys.readouterr().out.splitlines() if "=> of" in line]
        assert result == [f"ok: [{name}] => of {len(said)}" for name in said]


def test_a_recipe_is_served_on_no_more_sparks_than_it_is_for(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "small.yml").write_text("vllm_model: m\ntp_max: 2\nsource: somebody\n")
    with pytest.raises(InputError, match=r"needs --tp <= 2 \(got 3\)"):
        _run(project, "[{cluster_up: }]", recipe="small.yml", list_tasks=True, tp="3")
    for tp in ("2", None):
        assert _run(project, "[{cluster_up: }]", recipe="small.yml", list_tasks=True, tp=tp) == 0


def test_a_recipe_says_why_it_is_for_no_more(project: Path) -> None:
    text = "vllm_model: m\ntp_max: 1\nwhy: {tp_max: its kernels know one GPU only}\n"
    (project / "solo.yml").write_text(text)
    with pytest.raises(InputError) as caught:
        _run(project, "[{cluster_up: }]", recipe="solo.yml", list_tasks=True, tp="2")
    assert caught.value.hint == "its kernels know one GPU only"


def test_tp_times_pp_hosts_must_be_there(project: Path) -> None:
    (project / "any.yml").write_text("vllm_model: m\n")
    with pytest.raises(InputError, match=r"--tp 2 --pp 3 needs 6 Sparks, but .* has 3: spark-01, "):
        _run(project, "[{cluster_up: }]", recipe="any.yml", list_tasks=True, tp="2", pp="3")


def test_a_limit_may_choose_hosts_that_are_no_sparks(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(project, "[{debug: {msg: hi}}]", hosts="all", limit="routers") == 0
    assert "ok: [edge] => hi" in capsys.readouterr().out


def test_the_command_line_reads_its_options(project: Path) -> None:
    (project / "p.yml").write_text(
        "- hosts: sparks\n  tasks:\n    - {name: a, tags: t, debug: {msg: 'x={{ x }}'}}\n"
    )
    words = ["playbook.run", "p.yml", "--inventory", "inventory.yml", "--set", "x=1", "-v"]
    done = _typed(*words, "--tags", "t", "--limit", "spark-02", "--forks", "2")
    assert done.returncode == 0, done.stderr
    assert "ok: [spark-02] => x=1" in done.stdout
    wrong = _typed(*words, "--tags", "u")
    assert (wrong.returncode, wrong.stdout) == (5, "")
    assert wrong.stderr == "no task has the tag 'u'\n  known: t\n"


def test_actions_are_shown_with_their_arguments() -> None:
    done = _typed("playbook.actions", "--only", "wait_tcp")
    assert done.returncode == 0
    assert "port (integer; required): the port" in done.stdout
    wrong = _typed("playbook.actions", "--only", "wait_tpc")
    assert wrong.stderr.endswith("did you mean 'wait_tcp'?\n")
