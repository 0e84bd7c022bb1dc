"""The size of a start: as many Sparks as the recipe can use, and a change is confirmed."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparkfleet.actions.run.resize import confirm_resize, describe_resize
from sparkfleet.cli import context, prompt
from sparkfleet.cli.options import Options, parse_options
from sparkfleet.cli.playbook import prepare_run
from sparkfleet.errors import GateError
from sparkfleet.model import Cluster, Host
from sparkfleet.recipes.recipe import Recipe
from tests.commandline import run_command

SWITCH4 = Path(__file__).parents[3] / "inventories" / "switch4.yml"
NOWHERE = Path()


@pytest.mark.parametrize(
    ("hosts", "limits", "expected"),
    [
        (1, {}, 1),
        (2, {}, 2),
        (3, {}, 2),
        (4, {}, 4),
        (7, {}, 4),
        (4, {"tp_max": 1}, 1),
        (4, {"tp_max": 2}, 2),
        (3, {"tp_min": 3}, 3),
        (2, {"tp_min": 4}, 2),
    ],
)
def test_a_start_without_a_size_uses_every_spark_that_the_recipe_can_use(
    hosts: int, limits: dict[str, int], expected: int
) -> None:
    cluster = Cluster(name="c", hosts=tuple(Host(name=f"s{at}") for at in range(hosts)))
    recipe = replace(Recipe(name="r", path=NOWHERE), **limits)  # type: ignore[arg-type]  # sizes
    trimmed = context._trim_to_recipe(cluster, recipe)
    assert [host.name for host in trimmed.hosts] == [f"s{at}" for at in range(expected)]


@pytest.mark.parametrize(
    ("typed", "expected"), [({}, 4), ({"tp": "1"}, 1), ({"solo": True}, 1), ({"tp": "2"}, 2)]
)
def test_cluster_up_spans_the_cluster_unless_a_size_is_given(
    typed: dict[str, Any], expected: int
) -> None:
    given = {"tp": None, **typed, "inventory": [str(SWITCH4)]}
    options = parse_options(Options, "cluster.up", given, whole_cluster=True)
    chosen, assigned = prepare_run.prepare_run(prepare_run.find_playbook("cluster-up"), options)
    assert len(chosen.cluster.hosts) == expected
    assert len(assigned[0].hosts) == expected
    assert prepare_run.build_run_options(options, chosen).tp == expected


def test_every_host_is_stopped_whatever_the_recipe_allows() -> None:
    given = {"inventory": [str(SWITCH4)], "set": ["vllm_recipe=gpt-oss-20b"]}
    options = parse_options(Options, "cluster.down", given, whole_cluster=True)
    down = prepare_run.find_playbook("cluster-down")
    chosen, _ = prepare_run.prepare_run(down, options)
    assert len(chosen.cluster.hosts) == 4


def test_weights_are_staged_on_every_host_whatever_the_recipe_allows(tmp_path: Path) -> None:
    recipe = tmp_path / "one.yml"
    recipe.write_text("extends: gpt-oss-20b\ntp_max: 1\n")
    given = {"inventory": [str(SWITCH4)], "recipe": str(recipe)}
    options = parse_options(Options, "weights.stage", given, whole_cluster=True)
    stage = prepare_run.find_playbook("weights-stage")
    chosen, _ = prepare_run.prepare_run(stage, options)
    assert len(chosen.cluster.hosts) == 4


def _survey(*hosts: str, sizes: tuple[int, int, int] | None = None, **own: Any) -> Any:
    tp, pp, dp = sizes or (len(hosts), 1, 1)
    about = SimpleNamespace(hosts=hosts, tp=tp, pp=pp, dp=dp)
    return SimpleNamespace(**{"roles": {"serve": "x"}, "interrupted": False, "about": about, **own})


def test_a_change_of_size_is_described_with_both_sizes() -> None:
    text = describe_resize({"a": _survey("a", "b")}, ["a"])
    assert text.startswith("a deployment is serving on 2 Sparks (a, b);")
    assert text.endswith("one on 1 (a)")


@pytest.mark.parametrize(
    "survey", [_survey("a"), _survey("a", "b", roles={}), _survey("a", "b", interrupted=True)]
)
def test_what_keeps_its_size_or_does_not_serve_is_not_asked_about(survey: Any) -> None:
    assert describe_resize({"a": survey}, ["a"]) == ""


def test_a_change_of_size_is_refused_unless_it_is_confirmed() -> None:
    run: Any = SimpleNamespace(
        cluster=Cluster(name="c", hosts=(Host(name="a"),)),
        options=SimpleNamespace(confirm_resize=lambda _: False),
    )
    with pytest.raises(GateError, match="not confirmed: a deployment is serving on 2") as caught:
        confirm_resize(run, {"a": _survey("a", "b")})
    assert "--yes; to keep it, add --tp 2" in str(caught.value.problems[0].hint)
    run.options.confirm_resize = lambda _: True
    assert confirm_resize(run, {"a": _survey("a", "b")})
    run.options.confirm_resize = None  # such as `hosts.prepare`
    assert confirm_resize(run, {"a": _survey("a", "b")}) == ""


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [((1, 1, 1), "--solo"), ((1, 1, 2), "--dp 2"), ((2, 2, 1), "--tp 2 --pp 2")],
)
def test_the_hint_keeps_the_size_that_is_serving(
    sizes: tuple[int, int, int], expected: str
) -> None:
    run: Any = SimpleNamespace(
        cluster=Cluster(name="c", hosts=tuple(Host(name=name) for name in "abcdefgh")),
        options=SimpleNamespace(confirm_resize=lambda _: False),
    )
    hosts = "abcd"[: sizes[0] * sizes[1] * sizes[2]]
    with pytest.raises(GateError) as caught:
        confirm_resize(run, {"a": _survey(*hosts, sizes=sizes)})
    assert str(caught.value.problems[0].hint).endswith(f"to keep it, add {expected}")


@pytest.mark.parametrize(
    ("answer", "terminal", "expected"),
    [("y\n", True, True), ("YES\n", True, True), ("\n", True, False), ("y\n", False, False)],
)
def test_only_a_yes_on_a_terminal_confirms(
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    terminal: bool,
    expected: bool,
) -> None:
    typed, shown = io.StringIO(answer), io.StringIO()
    for name, stream in (("stdin", typed), ("stdout", shown)):
        monkeypatch.setattr(stream, "isatty", lambda: terminal)
        monkeypatch.setattr(sys, name, stream)
    assert prompt.confirm("Continue?") is expected


def test_variables_may_come_from_a_file_or_as_json(tmp_path: Path) -> None:
    (tmp_path / "v.yml").write_text("vllm_port: 8011\nsite: lab\n")
    (tmp_path / "i.yml").write_text("sparks: {hosts: {one: }}\n")
    words = ["inventory.host", "one", "-i", "i.yml"]
    from_file = run_command(*words, "-e", "@v.yml", cwd=tmp_path)
    assert '"vllm_port": 8011' in from_file.stdout, from_file.stderr
    from_json = run_command(*words, "-e", '{"vllm_port": 8012}', cwd=tmp_path)
    assert '"vllm_port": 8012' in from_json.stdout, from_json.stderr
    for bad in ("@none.yml", "{a", "{1: 2}"):
        done = run_command(*words, "-e", bad, cwd=tmp_path)
        assert done.returncode == 5, done.stderr
