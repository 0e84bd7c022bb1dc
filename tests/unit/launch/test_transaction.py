"""Records of a start: states, ranks, log lines, drift, unknown hosts, vitals."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.cli.cluster.watching import unreachable
from sparkfleet.launch.deployment.drift import find_drift
from sparkfleet.launch.host import deployment_record, vitals
from sparkfleet.launch.host.deployment_record import (
    DeploymentRecord,
    PreviousDeployment,
    RunProgress,
    RunStep,
)
from sparkfleet.launch.host.survey import Survey
from sparkfleet.launch.startup import log_patterns
from sparkfleet.model import Cluster, Host, Value
from sparkfleet.recipes.metadata import LogLines
from tests.gb10 import output
from tests.surveys import make_survey

ABOUT = DeploymentRecord(
    run="r1",
    recipe="m",
    served_name="m",
    port=8000,
    tp=2,
    hosts=("a", "b"),
    ray_nodes={"a": "10.0.0.1", "b": "10.0.0.2"},
    python=("/v/bin/python",),
    weights="c1",
    engine="vllm 0.32.0",
)
GOOD = PreviousDeployment(
    files={"nccl.env": "A=1\n", "vllm-serve.sh": None},
    hash="h1",
    roles={"ray": "ray-head.sh", "serve": "vllm-serve.sh"},
    about=ABOUT,
)
STATE = RunProgress(run="r2", holder={"user": "u"}, step=RunStep.RAY, previous=GOOD)


def _survey(**changes: Any) -> Survey:
    survey = make_survey(
        home="/h",
        folder="/f",
        files={"nccl.env": "export A=1\n"},
        hash="h1",
        roles={"serve": "vllm-serve.sh"},
        about=ABOUT,
    )
    return replace(survey, **changes)


def _summaries(survey: Survey, files: dict[str, str], about: DeploymentRecord = ABOUT) -> list[str]:
    return [change.summary for change in find_drift(survey, files, about, "h1")]


def test_a_state_comes_back_from_its_file_as_it_was() -> None:
    assert deployment_record.parse_run_progress(STATE.text()) == STATE


@pytest.mark.parametrize("text", [None, "", "{", "[]", "null", '{"run": 1}', "7"])
def test_an_incomplete_state_file_gives_none(text: str | None) -> None:
    assert deployment_record.parse_run_progress(text) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("run", 1), ("holder", []), ("holder", "u"), ("previous", []), ("previous", {"files": 1})],
)
def test_a_state_of_another_shape_gives_none(name: str, value: Any) -> None:
    content = json.loads(STATE.text())
    content[name] = content[name] | value if isinstance(value, dict) else value
    assert deployment_record.parse_run_progress(json.dumps(content)) is None


def test_fields_that_another_version_has_are_left() -> None:
    data = {**ABOUT.data(), "new": 1}
    assert deployment_record.parse_deployment_record(json.loads(json.dumps(data))) == ABOUT


def test_the_good_deployment_is_the_one_before_an_interrupted_run() -> None:
    assert _survey(state=STATE).last_good == GOOD
    assert _survey(state=STATE).interrupted
    smoked = _survey(state=replace(STATE, step=RunStep.SMOKED))
    assert not smoked.interrupted
    assert smoked.last_good.hash == "h1"
    assert smoked.last_good.files == {"nccl.env": "export A=1\n"}


def test_a_deployment_does_not_differ_from_itself_except_in_comments() -> None:
    assert _summaries(_survey(), {"nccl.env": "# why\nexport A=1\n"}) == []


def test_what_follows_an_unusual_line_break_is_not_a_comment() -> None:
    before = "export A='1\u2028# 2'\n"
    after = "export A='1\u2028# 3'\n"
    (summary,) = _summaries(_survey(files={"nccl.env": before}), {"nccl.env": after})
    assert summary == "/f/nccl.env differs: A"


def test_drift_names_each_difference() -> None:
    wanted = {"nccl.env": "export A=2\nexport B='x y'\n", "vllm-serve.sh": "exec\n"}
    about = replace(ABOUT, weights="c2", engine="vllm 0.33.0", hosts=("a",))
    assert _summaries(_survey(dead=("serve",)), wanted, about) == [
        "serve died",
        "/f/nccl.env differs: A, B",
        "/f/vllm-serve.sh is missing",
        "hosts: running a, b, expected a",
        "weights: running c1, expected c2",
        "engine: running vllm 0.32.0, expected vllm 0.33.0",
    ]
    assert _summaries(_survey(hash=None, roles={}), {"nccl.env": "export A=1\n"}) == [
        "no deployment is running"
    ]


def test_the_label_of_containers_does_not_count_as_a_difference() -> None:
    survey = _survey(files={"s": "--label=h0\n"}, hash="h0")
    assert _summaries(survey, {"s": "--label=h1\n"}) == ["runs deployment h0, expected h1"]


def test_log_lines_are_judged_with_the_line_and_the_reason() -> None:
    logs = {"a serve": "x\nUsing CUTLASS_FP4 kernels\n", "b ray": "y\n"}
    wanted = LogLines(expect=("y", "MARLIN MoE backend"), forbid=("CUTLASS_FP4",))
    why = {"moe-backend": "NaN scales", "log": "a slow path"}
    assert list(log_patterns.check_log_lines(logs, wanted, why)) == [
        (
            "the log of a serve contains 'CUTLASS_FP4', which the recipe forbids",
            "Using CUTLASS_FP4 kernels\na slow path",
        ),
        (
            (
                "no log contains 'MARLIN MoE backend', which the recipe expects "
                "(searched: a serve, b ray)"
            ),
            "NaN scales",
        ),
    ]
    assert list(log_patterns.check_log_lines(logs, LogLines(expect=("x",)), {})) == []


def test_rates_are_those_between_two_looks_and_a_new_counter_counts_from_nothing() -> None:
    tokens = "vllm:generation_tokens_total"
    read = "vllm:prompt_tokens_total"
    answer = {
        "meminfo": "MemTotal: 100 kB\nMemFree: 10 kB\nMemAvailable: 60 kB\n",
        "apps": output("nvidia-smi.compute-apps.csv").replace("24420 MiB", "[N/A]"),
        "ages": {"7": 3.5, "8": None},
        "busy": False,
        "labels": ["default"],
        "health": True,
        "gpu_state": "",
        "gpu_reasons": "",
        "traffic": [],
        "samples": [{"at": 1.0, tokens: 100.0, read: 50.0}, {"at": 3.0, tokens: 150.0, read: 0.0}],
    }
    found = vitals.parse_vitals(answer)
    assert found.load is not None
    assert (found.load.generated, found.load.prompted) == (25.0, 0.0)
    assert found.memory is not None
    assert found.memory.available == 60 * 1024
    assert found.gpu[0].memory is None
    assert found.ages == {7: 3.5}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return Cluster(name="c", hosts=(Host(name="a"), Host(name="b")))


def test_a_lost_host_is_remembered_until_it_answers(cluster: Cluster) -> None:
    unreachable.update_unreachable(cluster, lost=["b"], answered=["a", "b"], command="cluster.up")
    (result,) = unreachable.format_unreachable(cluster).values()
    assert result.startswith("b has not answered since ")
    assert result.endswith("its ports and memory are treated as in use until it answers")
    assert "(cluster.up)" in result
    unreachable.update_unreachable(cluster, lost=["b"], answered=["a"], command="cluster.status")
    assert "(cluster.up)" in unreachable.format_unreachable(cluster)["b"]
    unreachable.update_unreachable(cluster, lost=[], answered=["b"], command="cluster.up")
    assert unreachable.format_unreachable(cluster) == {}


def test_a_host_that_never_answered_is_not_remembered(cluster: Cluster) -> None:
    unreachable.update_unreachable(cluster, lost=["b"], answered=["a"], command="cluster.up")
    assert unreachable.format_unreachable(cluster) == {}
    unreachable.update_unreachable(cluster, lost=[], answered=["a", "b"], command="cluster.up")
    unreachable.update_unreachable(cluster, lost=["b"], answered=["a"], command="cluster.up")
    assert list(unreachable.format_unreachable(cluster)) == ["b"]


def test_another_host_of_the_same_name_is_not_taken_for_it(cluster: Cluster) -> None:
    unreachable.update_unreachable(cluster, lost=["b"], answered=["b"], command="cluster.up")
    other = Host(name="b", vars={"ansible_host": Value(data="10.0.0.9")})
    assert unreachable.format_unreachable(Cluster(name="c", hosts=(other,))) == {}


def test_a_smaller_cluster_does_not_forget_the_others(cluster: Cluster) -> None:
    unreachable.update_unreachable(cluster, lost=["b"], answered=["a", "b"], command="cluster.up")
    solo = replace(cluster, hosts=cluster.hosts[:1])
    unreachable.update_unreachable(solo, lost=[], answered=["a"], command="cluster.up --solo")
    assert unreachable.format_unreachable(solo) == {}
    assert list(unreachable.format_unreachable(cluster)) == ["b"]
