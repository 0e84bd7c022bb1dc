"""Models without a recipe: served with defaults, estimated from the Hub, written as a recipe."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from sparkfleet.cli.options import parse_options
from sparkfleet.cli.recipes.fitting.fit import show_fit
from sparkfleet.cli.recipes.fitting.values import FitRequest
from sparkfleet.cli.recipes.new import write_recipe
from sparkfleet.cli.recipes.options import FitOptions, NewOptions
from sparkfleet.cli.recipes.validate import run_recipe_rules
from sparkfleet.errors import RecipeError, UsageError
from sparkfleet.model import Severity
from sparkfleet.recipes.recipe import load_recipe
from sparkfleet.vllm.parsers import find_parsers
from sparkfleet.weights import hub
from tests.doubles.hub_server import HubServer
from tests.models import config

NAME = "someone/Gemma-4-26B-A4B-IT-NVFP4"
FILE = Path("playbooks/recipes/gemma-4-26b-a4b-it-nvfp4.yml")
HUGE = "someone/Qwen3.5-397B-A17B"


@pytest.fixture(autouse=True)
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """Run a Hub with two models, and work in an empty folder."""
    monkeypatch.setattr(hub, "WAITS", (0.01,))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with HubServer() as running:
        template = f"{running.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "ENDPOINT", running.url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        running.add(NAME, {"config.json": config("gemma-4-26b-a4b-it-nvfp4").encode()})
        running.add(HUGE, {"config.json": config("qwen3.5-397b-a17b").encode()})
        yield running


def _new(model: str, **typed: Any) -> int:
    return write_recipe(parse_options(NewOptions, "recipes.new", {"model": model, **typed}))


def _fit(model: str, **typed: Any) -> int:
    options = parse_options(FitOptions, "recipes.fit", {"recipe": model, **typed})
    return show_fit(FitRequest.from_options(options))


def test_a_model_in_place_of_a_recipe_has_defaults_and_memory_rules() -> None:
    recipe = load_recipe("someone/Any-Model")
    assert not recipe.written
    assert recipe.vars["vllm_model"].data == "someone/Any-Model"
    assert recipe.vars["vllm_args"].data == {
        "gpu-memory-utilization": 0.85,
        "max-model-len": "auto",
    }


def test_no_rule_refuses_a_model_without_a_recipe() -> None:
    findings = run_recipe_rules(load_recipe("someone/Any-Model"))
    assert [each for each in findings if each.severity is Severity.ERROR] == []


@pytest.mark.parametrize("name", ["nothing", "a/b/c", "folder/file.yml", "-a/b", "../b"])
def test_other_names_are_those_of_recipes(name: str) -> None:
    with pytest.raises(RecipeError, match="not found"):
        load_recipe(name)


def test_the_fit_of_a_model_is_read_from_the_hub(capsys: pytest.CaptureFixture[str]) -> None:
    assert _fit(NAME) == 0
    text = capsys.readouterr().out
    assert "read: the Hub" in text
    assert "spark-1: it fits" in text


def test_an_automatic_context_needs_no_room_for_the_longest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _fit(NAME, output="json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["asked"]["auto_length"] is True
    assert document["sequence_bytes"] < 1 << 30  # of the shortest


def test_a_new_recipe_has_format_parsers_and_the_context_that_fits(
    server: HubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _new(NAME) == 0
    recipe = load_recipe(str(FILE))
    assert recipe.checkpoint is not None
    assert recipe.checkpoint.format == "modelopt"
    assert recipe.checkpoint.architecture == "Gemma4ForConditionalGeneration"
    assert recipe.vars["weights_revision"].data == server.repositories[NAME].commit
    assert recipe.vars["vllm_args"].data == {
        "gpu-memory-utilization": 0.85,
        "max-model-len": 131072,
        "max-num-seqs": 4,
        "enable-auto-tool-choice": True,
        "tool-call-parser": "gemma4",
        "reasoning-parser": "gemma4",
    }
    assert recipe.tp_min is None
    shown = capsys.readouterr().out
    assert f"wrote {FILE}" in shown
    assert "sparkfleet cluster.up --solo --recipe gemma-4-26b-a4b-it-nvfp4" in shown


def test_a_model_that_one_spark_does_not_hold_gets_a_least_size(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _new(HUGE, out="huge.yml") == 0
    recipe = load_recipe("huge.yml")
    assert recipe.tp_min is not None
    assert recipe.tp_min > 1
    shown = capsys.readouterr().out
    assert f"sparkfleet cluster.up --tp {recipe.tp_min} --recipe huge.yml" in shown


def test_a_folder_serves_as_well_as_the_hub(tmp_path: Path, server: HubServer) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text(config("gemma-4-26b-a4b-it-nvfp4"))
    assert _new(NAME, folder="model", out="own.yml") == 0
    assert "weights_revision" not in load_recipe("own.yml").vars
    assert server.requests == []


def test_a_folder_without_a_config_is_not_that_of_a_model(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    with pytest.raises(UsageError, match=r"is not the folder of a model: no config.json"):
        _new(NAME, folder="model", out="own.yml")
    assert not (tmp_path / "own.yml").exists()


def test_a_file_that_exists_is_not_overwritten() -> None:
    FILE.parent.mkdir(parents=True)
    FILE.write_text("mine")
    with pytest.raises(UsageError, match="already exists"):
        _new(NAME)
    assert FILE.read_text() == "mine"


@pytest.mark.parametrize(
    ("model", "out", "message"),
    [("gemma", None, "is not the name of a model"), (NAME, "x.txt", "must end in .yml")],
)
def test_wrong_names_are_refused(model: str, out: str | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        _new(model, **({"out": out} if out else {}))


@pytest.mark.parametrize(
    ("model", "tools", "reasoning"),
    [
        ("openai/gpt-oss-20b", "openai", ""),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen3_xml", ""),
        ("Qwen/Qwen3-32B", "hermes", "qwen3"),
        ("zai-org/GLM-4.6", "glm45", "glm45"),
        ("zai-org/GLM-4.7-Flash", "glm47", ""),
        ("someone/Unknown", "", ""),
    ],
)
def test_parsers_are_those_of_vllms_documents(model: str, tools: str, reasoning: str) -> None:
    parsers = find_parsers(model)
    assert (parsers.tools, parsers.reasoning) == (tools, reasoning)
