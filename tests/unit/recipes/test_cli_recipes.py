"""`recipes.list` and `recipes.show`: the catalogue, explained; offline."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.model import Host, Value
from sparkfleet.recipes.explanation import list_settings
from sparkfleet.recipes.glossary import ENVIRONMENT, OPTIONS
from sparkfleet.recipes.recipe import load_recipe
from sparkfleet.resources import list_data_files
from tests.commandline import run_command

PAIR = Path(__file__).parents[3] / "inventories" / "pair.yml"
CATALOGUE = list_data_files("playbooks/recipes", ".yml")
MODEL = [name for name in CATALOGUE if name != "lab-tiny"]
HEAVY = {"fabric", "paramiko", "ray", "jinja2", "huggingface_hub"}
INVENTORY = """\
sparks:
  hosts:
    one:
      ansible_host: 10.0.0.1
      vllm_port: 8001
    two:
      ansible_host: 10.0.0.2
      vllm_args: {max-num-seqs: 1}
  vars:
    vllm_port: 8002
    vllm_env: {HF_TOKEN: hf_secret, EXTRA: 5}
"""

Call = Callable[..., str]


@pytest.fixture
def call(tmp_path: Path) -> Call:
    """Type a task with its options in an empty folder and return what it prints."""

    def type_it(*words: str, code: int = 0) -> str:
        done = run_command(*words, cwd=tmp_path)
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    return type_it


def test_the_catalogue_is_listed_with_whole_names_and_speeds(call: Call) -> None:
    lines = call("recipes.list").splitlines()
    rows = {line.split()[0]: line for line in lines[1:-4] if not line.endswith(":")}
    assert set(rows) == set(CATALOGUE)
    community = rows["gemma4-26b-a4b-nvfp4-community"]
    assert "bg-digitalservices/Gemma-4-26B-A4B-it-NVFP4" in community
    assert "51.6 tok/s" in community
    assert rows["gemma4-31b-fp8"].endswith("11.2 tok/s on 2")
    assert rows["llama-3.3-70b-tp2"].split()[2] == "2+"
    assert rows["gemma4-26b-a4b-nvfp4"].split()[2] == "1"


def test_the_catalogue_is_in_families_with_the_newest_first(call: Call) -> None:
    lines = call("recipes.list").splitlines()
    assert lines[-1] == "Shipped recipes were last compared with their sources on 2026-11-28."
    families = [line for line in lines if line.endswith(":")]
    assert {"Qwen:", "Gemma:", "Nemotron:", "DeepSeek:", "Others:"} <= set(families)
    assert len(families) == len(set(families))
    first = lines.index("Qwen:") + 1
    dates = [line.split()[3] for line in lines[first : first + 5]]
    assert dates == sorted(dates, reverse=True)


def test_the_catalogue_can_be_searched(call: Call) -> None:
    lines = call("recipes.list", "--search", "Qwen3.8-27B").splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == [
        "Qwen:",
        "qwen3.8-27b-nvfp4",
        "qwen3.8-27b-nvfp4-tp2",
    ]
    document = json.loads(call("recipes.list", "--search", "glm", "--output", "json"))
    names = [recipe["name"] for recipe in document["recipes"]]
    assert names == ["glm-5.3-flash-fp8", "glm-5.3-flash-nvfp4"]
    nothing = call("recipes.list", "--search", "no such text").splitlines()[0]
    assert nothing == (
        "no recipe has 'no such text' in name, model or description; "
        "to show all: sparkfleet recipes.list"
    )


def test_the_catalogue_as_json_has_every_speed_with_its_source(call: Call) -> None:
    document = json.loads(call("recipes.list", "--output", "json"))
    recipes = {recipe["name"]: recipe for recipe in document["recipes"]}
    assert set(recipes) == set(CATALOGUE)
    speeds = [speed for recipe in recipes.values() for speed in recipe["speeds"]]
    assert len(speeds) > 30
    assert all(speed["source"] and speed["date"] for speed in speeds)
    assert recipes["gemma4-26b-a4b-nvfp4"]["requires"]["vllm"] == ">=0.19.0"


def test_a_recipe_is_explained_value_by_value(call: Call) -> None:
    text = " ".join(call("recipes.show", "gemma4-26b-a4b-nvfp4-community").split())
    for expected in (
        "mixture of experts, 26B parameters, 3.8B of them for each token",
        "--moe-backend: marlin which program computes the experts of a mixture why: the GB10 lacks",
        "playbooks/recipes/gemma4-26b-a4b-nvfp4-community.yml It needs",
        "1 Spark, 51.6 tok/s (52 tok/s document, five runs of 800 tokens, 2026-04-05)",
        "3 concurrent requests",
        "A successful start logs - Using NvFp4LinearBackend.FLASHINFER_CUTLASS for NVFP4 GEMM",
        "Stop if the log has - CUTLASS_FP4",
        "sparkfleet cluster.up --solo --recipe gemma4-26b-a4b-nvfp4-community",
    ):
        assert expected in text, expected


@pytest.mark.parametrize("name", MODEL)
def test_every_value_of_every_recipe_is_explained(name: str) -> None:
    recipe = load_recipe(name)
    unexplained = [one.name for one in list_settings(recipe) if not (one.meaning or one.why)]
    assert unexplained == []
    assert all(one.where is not None and one.where.line for one in list_settings(recipe))


@pytest.mark.parametrize("name", ["max-model-len", "max_model_len", "--max-model-len", "q", "-q"])
def test_an_option_is_explained_in_every_spelling(tmp_path: Path, name: str) -> None:
    path = tmp_path / "own.yml"
    path.write_text(
        f"description: a\nsource: b\nvllm_model: org/model\nvllm_args: {{{name}: fp8}}\n"
    )
    long = "quantization" if "q" in name else "max-model-len"
    (found,) = [one for one in list_settings(load_recipe(str(path))) if one.key == name]
    assert found.meaning == OPTIONS[long]
    assert found.name == (name if name.startswith("-") else f"--{name}")


def test_an_option_of_the_inventory_is_shown_over_the_recipes_in_another_spelling(
    tmp_path: Path,
) -> None:
    path = tmp_path / "own.yml"
    path.write_text("vllm_model: org/model\nvllm_args: {max-model-len: 1, seed: 2}\n")
    host = Host(name="h", vars={"vllm_args": Value(data={"max_model_len": 3})})
    shown = [one for one in list_settings(load_recipe(str(path)), host) if one.key]
    assert [(one.key, one.value, [value for value, _ in one.over]) for one in shown] == [
        ("max_model_len", 3, [1]),
        ("seed", 2, []),
    ]


def test_no_meaning_is_left_over() -> None:
    used = {one.key for name in CATALOGUE for one in list_settings(load_recipe(name))}
    assert set(OPTIONS) | set(ENVIRONMENT) <= used


def test_the_strongest_value_is_shown_with_those_that_it_overrides(
    call: Call, tmp_path: Path
) -> None:
    (tmp_path / "inventory.yml").write_text(INVENTORY)
    words = ["recipes.show", "gpt-oss-120b", "--inventory", "inventory.yml"]
    text = " ".join(call(*words, "--set", "engine_image=own:1").split())
    assert "vllm_port: 8001 port of the endpoint on the head set at inventory.yml:5:18" in text
    assert "instead of 8002 at inventory.yml:10:16" in text
    assert "engine_image: own:1" in text
    assert "set at --set" in text
    assert "instead of nvcr.io/nvidia/vllm:26.04-py3 at line " in text
    assert "EXTRA: 5 set at inventory.yml:11:37" in text
    assert "On two vllm_port: 8002 (set at inventory.yml:10:16) --max-num-seqs: 1 (set at" in text


def test_a_secret_of_the_inventory_is_not_shown(call: Call, tmp_path: Path) -> None:
    (tmp_path / "inventory.yml").write_text(INVENTORY)
    words = ["recipes.show", "gpt-oss-120b", "--inventory", "inventory.yml"]
    assert "HF_TOKEN: (secret)" in call(*words)
    assert "hf_secret" not in call(*words) + call(*words, "--output", "json")


def test_a_key_of_the_environment_is_shown_as_it_is_written(call: Call) -> None:
    text = call("recipes.show", "dflash-qwen3.5-27b")
    assert "VLLM_API_KEY: {{ lookup('env', 'VLLM_API_KEY') }}" in text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["gpt-oss-120"], "did you mean 'gpt-oss-120b'"),
        (["gpt-oss-120b", "--set", "vllm_prot=1"], "did you mean 'vllm_port'?"),
        (["gpt-oss-120b", "--set", "vllm_port=x"], "expected an integer from 1 to 65535 (got 'x')"),
        (["gpt-oss-120b", "--inventory", "none.yml"], "none.yml"),
    ],
)
def test_what_cannot_be_explained_ends_with_5(call: Call, words: list[str], expected: str) -> None:
    assert expected in call("recipes.show", *words, code=5)


@pytest.mark.parametrize(
    "words",
    [
        ["recipes.list"],
        ["recipes.list", "--output", "json"],
        ["recipes.show", "dflash-qwen3.5-27b"],
        ["recipes.show", "gpt-oss-120b", "--inventory", str(PAIR), "--set", "vllm_port=8001"],
    ],
)
def test_the_catalogue_loads_nothing_that_reaches_a_host(words: list[str], tmp_path: Path) -> None:
    code = (
        "import sys, runpy\n"
        f"sys.argv = ['sparkfleet', *{words!r}]\n"
        "try: runpy.run_module('sparkfleet', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "print('\\nLOADED', *sys.modules)"
    )
    done: Any = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    text, loaded = done.stdout.split("\nLOADED ")
    assert "gpt-oss" in text or "dflash" in text
    assert {name.split(".")[0] for name in loaded.split()} & HEAVY == set()


def test_what_to_type_next_names_the_file_that_was_given(call: Call, tmp_path: Path) -> None:
    (tmp_path / "my3.yml").write_text("extends: gpt-oss-20b\n")
    text = call("recipes.show", "my3.yml")
    assert "recipes.fit my3.yml" in text
    assert "--recipe my3.yml" in text
    assert "--recipe gpt-oss-20b" in call("recipes.show", "gpt-oss-20b")


def test_a_place_names_its_file_only_where_it_is_another(call: Call, tmp_path: Path) -> None:
    (tmp_path / "mine.yml").write_text("extends: gpt-oss-20b\nvllm_port: 8001\n")
    places = [line for line in call("recipes.show", "mine.yml").splitlines() if "set at" in line]
    assert "      set at line 2" in places
    assert any(re.fullmatch(r"      set at line \d+ of gpt-oss-20b", line) for line in places)
    assert not any("/" in line for line in places)


@pytest.mark.parametrize("task", ["recipes.show", "playbook.run"])
def test_a_named_pipe_is_said_to_be_one(call: Call, tmp_path: Path, task: str) -> None:
    os.mkfifo(tmp_path / "pipe.yml")
    text = call(task, "pipe.yml", code=5)
    assert "'pipe.yml' cannot be read: it is a device, a socket or a named pipe" in text


@pytest.mark.parametrize("task", ["recipes.show", "recipes.fit", "recipes.export"])
def test_a_folder_is_said_to_be_one(call: Call, tmp_path: Path, task: str) -> None:
    (tmp_path / "folder").mkdir()
    text = call(task, "folder", code=5)
    assert "folder is a folder, and not a recipe" in text
    assert "sparkfleet recipes.validate and sparkfleet recipes.import take folders" in text


def test_a_recipe_that_cannot_be_used_does_not_hide_the_others(call: Call, tmp_path: Path) -> None:
    (tmp_path / "playbooks/recipes").mkdir(parents=True)
    (tmp_path / "playbooks/recipes/mine.yml").write_text("vllm_modle: a/b\n")
    text = call("recipes.list", "--search", "gpt-oss-20b")
    assert "gpt-oss-20b" in text
    problem = "playbooks/recipes/mine.yml:1:1: unknown key 'vllm_modle' in a recipe"
    assert f"not usable: {problem}" in text
    document = json.loads(call("recipes.list", "--output", "json"))
    assert [error["file"] for error in document["errors"]] == ["playbooks/recipes/mine.yml"]
