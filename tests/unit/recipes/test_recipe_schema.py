"""Metadata of recipes: typed values, and every mistake at once with its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from sparkfleet.errors import RecipeError
from sparkfleet.recipes.metadata import Checkpoint, LogLines, SmokePrompt, Speed
from sparkfleet.recipes.recipe import Recipe, load_recipe

WHOLE = """\
description: A model
source: a guide, section 7
licence: Apache-2.0
gated: false
vllm_model: org/model
vllm_args: {quantization: modelopt, moe-backend: marlin}
vllm_env: {CUTE_DSL_ARCH: sm_121a}
checkpoint:
  {format: modelopt, size: 16.5GB, parameters: 26B, active: 3.8B, architecture: XForY, moe: true}
requires: {vllm: ">=0.21,<0.24", transformers: ">=5.5.0"}
log:
  expect: ["Using 'MARLIN' NvFp4 MoE backend"]
  forbid: [CUTLASS_FP4]
why:
  moe-backend: native FP4 gives garbage
  CUTE_DSL_ARCH: the GPU's name
  vllm_model: the newest
request: [pass enable_thinking]
speeds:
  - {nodes: 1, decode: 51.5, ttft: 0.053, context: 0, source: a post, date: 2026-04-05}
  - {nodes: 1, decode: 114.6, requests: 3, source: a post, date: 2026-04, note: all together}
advice: [take the smaller one]
smoke: [{ask: 12*17, expect: 204}]
tp_min: 1
tp_max: 2
"""


def _recipe(folder: Path, text: str, name: str = "r") -> Recipe:
    path = folder / f"{name}.yml"
    path.write_text(text)
    return load_recipe(str(path))


def _problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        _recipe(folder, text)
    return [str(problem) for problem in caught.value.problems]


def test_everything_in_a_recipe_is_a_value(tmp_path: Path) -> None:
    recipe = _recipe(tmp_path, WHOLE)
    assert (recipe.licence, recipe.gated, recipe.tp_min, recipe.tp_max) == (
        "Apache-2.0",
        False,
        1,
        2,
    )
    assert recipe.checkpoint == Checkpoint(
        format="modelopt",
        size=16_500_000_000,
        parameters=26_000_000_000,
        active=3_800_000_000,
        architecture="XForY",
        moe=True,
    )
    assert recipe.requires["vllm"] == SpecifierSet(">=0.21,<0.24")
    assert recipe.log == LogLines(
        expect=("Using 'MARLIN' NvFp4 MoE backend",), forbid=("CUTLASS_FP4",)
    )
    assert recipe.why["moe-backend"] == "native FP4 gives garbage"
    assert recipe.request == ("pass enable_thinking",)
    assert recipe.speeds[0] == Speed(
        nodes=1, decode=51.5, ttft=0.053, context=0, source="a post", date="2026-04-05"
    )
    assert recipe.fastest == recipe.speeds[0]
    assert recipe.speeds[1].date == "2026-04"
    assert recipe.advice == ("take the smaller one",)
    assert recipe.smoke == (SmokePrompt(ask="12*17", expect="204"),)


def test_every_value_knows_its_place(tmp_path: Path) -> None:
    recipe = _recipe(tmp_path, WHOLE)
    assert str(recipe.vars["vllm_model"].where).endswith("r.yml:5:1")
    assert str(recipe.vars["vllm_args"].entries["moe-backend"]).endswith("r.yml:6:37")
    assert str(recipe.places["checkpoint.size"]).endswith("r.yml:9:22")
    assert str(recipe.places["speeds.1"]).endswith("r.yml:21:5")


def test_every_mistake_is_reported_at_once_with_its_place(tmp_path: Path) -> None:
    result = _problems(
        tmp_path,
        "vllm_port: eight\n"
        "gated: perhaps\n"
        "checkpoint: {fromat: fp8, size: big, moe: 1}\n"
        "requires: {vllm: newest}\n"
        "log: {expects: [a]}\n"
        "request: please\n"
        "tp_max: 0\n"
        "why: {moe-backnd: x}\n"
        "vllm_args: {moe-backend: marlin}\n",
    )
    text = "\n".join(result)
    assert len(result) == 10
    assert "r.yml:1:12: vllm_port: expected an integer from 1 to 65535 (got 'eight')" in text
    assert "r.yml:2:8: gated: expected true or false (got 'perhaps')" in text
    assert "r.yml:3:14: checkpoint: unknown key 'fromat'" in text
    assert "did you mean 'format'?" in text
    assert "r.yml:3:33: checkpoint.size: expected a number of bytes" in text
    assert "r.yml:3:43: checkpoint.moe: expected true or false (got 1)" in text
    assert "r.yml:4:18: requires.vllm: expected versions such as" in text
    assert "r.yml:5:7: log: unknown key 'expects'" in text
    assert "did you mean 'expect'?" in text
    assert "r.yml:6:10: request: expected a list (got 'please')" in text
    assert "r.yml:7:9: tp_max: expected an integer >= 1 (got 0)" in text
    assert "r.yml:8:7: why explains 'moe-backnd', which the recipe does not set" in text
    assert "did you mean 'moe-backend'?" in text


@pytest.mark.parametrize(
    ("speed", "expected"),
    [
        ("{nodes: 1, decode: 5, source: x}", "speeds: missing date"),
        ("{nodes: 1, source: x, date: 2026-06}", "missing one of decode, prefill, ttft"),
        ("{nodes: 0, decode: 5, source: x, date: 2026-06}", "expected an integer >= 1 (got 0)"),
        ("{nodes: 1, decode: fast, source: x, date: 2026-06}", "expected a number > 0"),
        ("{nodes: 1, decode: -5, source: x, date: 2026-06}", "expected a number > 0"),
        ("{nodes: 1, decode: 5, source: x, date: June}", "expected a date such as 2026-06"),
        ("{nodes: 1, decod: 5, source: x, date: 2026-06}", "did you mean 'decode'?"),
        ("fast", "speeds: expected a mapping (got 'fast')"),
    ],
)
def test_a_speed_says_what_was_measured_by_whom_and_when(
    tmp_path: Path, speed: str, expected: str
) -> None:
    assert expected in "\n".join(_problems(tmp_path, f"vllm_model: a\nspeeds: [{speed}]\n"))


@pytest.mark.parametrize(
    "text",
    [
        "checkpoint: [a]",
        "checkpoint: {1: a}",
        "requires: {'a b': '>1'}",
        "requires: {vllm: 1}",
        "log: x",
        "log: {expect: x}",
        "log: {expect: [1]}",
        "why: x",
        "why: {why: 1}",
        "speeds: x",
        "advice: {a: b}",
        "description: ''",
        "smoke: [{ask: a, expect: ''}]",
        "vllm_args: x",
        "vllm_env: {A: [1]}",
    ],
)
def test_a_value_of_another_form_is_refused_with_its_place(tmp_path: Path, text: str) -> None:
    assert all("r.yml:1:" in problem for problem in _problems(tmp_path, text + "\n"))


def test_the_keys_of_other_tools_are_translated(tmp_path: Path) -> None:
    text = "\n".join(_problems(tmp_path, "model: a/b\nimage: i\nargs: {}\n"))
    for name in ("vllm_model", "engine_image", "vllm_args"):
        assert f"did you mean {name!r}?" in text


@pytest.mark.parametrize("head", ["vllm_args:\n", "why:\n", ""])
def test_a_recipe_of_too_many_values_is_refused(tmp_path: Path, head: str) -> None:
    """Each unknown name costs a search for a similar one: 45,000 took a minute."""
    path = tmp_path / "r.yml"
    path.write_text(head + "".join(f"  o{number}: 1\n" for number in range(1001)))
    with pytest.raises(RecipeError, match="contains more than 2,000 values"):
        load_recipe(str(path))
