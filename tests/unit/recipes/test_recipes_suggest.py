"""`recipes.suggest`: candidates for a purpose, with published or measured figures only."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.cli.recipes.options import PURPOSE_NAMES
from sparkfleet.cli.recipes.purposes import PURPOSES
from sparkfleet.cli.recipes.suggest import _choose_figures
from sparkfleet.fit.cost_model import DecodeStep, Sample
from sparkfleet.fit.measured_speeds import MeasuredStep
from sparkfleet.recipes.recipe import load_recipe
from tests.commandline import run_command
from tests.variations import keep_some

HOST = "{ansible_host: 192.0.2.%d}"


def _suggest(folder: Path, *words: str, count: int = 2, columns: int = 200, code: int = 0) -> str:
    hosts = ", ".join(f"s{at}: {HOST % at}" for at in range(1, count + 1))
    (folder / "hosts.yml").write_text(f"sparks: {{hosts: {{{hosts}}}}}\n")
    environment = {**os.environ, "COLUMNS": str(columns)}
    done = run_command("recipes.suggest", *words, "-i", "hosts.yml", cwd=folder, env=environment)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + (done.stderr if code == 5 else "")


def _document(folder: Path, *words: str, count: int = 2) -> list[dict[str, Any]]:
    text = _suggest(folder, *words, "--most", "99", "--output", "json", count=count)
    candidates: list[dict[str, Any]] = json.loads(text)["candidates"]
    return candidates


def test_every_purpose_can_be_typed() -> None:
    assert tuple(PURPOSES) == PURPOSE_NAMES


@pytest.mark.parametrize("purpose", PURPOSE_NAMES)
@pytest.mark.parametrize("columns", keep_some([80, 200], 1))
def test_a_suggestion_ends_with_commands_and_fits_the_terminal(
    tmp_path: Path, purpose: str, columns: int
) -> None:
    lines = _suggest(tmp_path, purpose, columns=columns).splitlines()
    commands = lines[lines.index("type:") + 1 :]
    assert 0 < len(commands) <= 8
    for command in commands:
        assert re.fullmatch(
            r"  sparkfleet cluster.up (--solo|--tp \d|--dp 2) --recipe [\w.-]+", command
        ), command
    assert max(map(len, lines[1:])) <= max(columns, *map(len, commands))


@pytest.mark.parametrize("purpose", keep_some(PURPOSE_NAMES, 2))
def test_every_figure_is_one_of_its_recipe(tmp_path: Path, purpose: str) -> None:
    for candidate in _document(tmp_path, purpose):
        speeds = load_recipe(candidate["recipe"]).speeds
        for figure in candidate["figures"]:
            assert any(
                (speed.nodes, speed.decode, speed.requests, speed.source)
                == (figure["nodes"], figure["decode"], figure["requests"], figure["source"])
                for speed in speeds
            )


def test_a_size_without_a_figure_is_not_measured(tmp_path: Path) -> None:
    text = _suggest(tmp_path, "long-context", "--most", "99")
    row = next(line for line in text.splitlines() if line.startswith("qwen3.6-27b-nvfp4-1m"))
    assert row.split("  ")[-1].strip() == "not measured"
    assert row.count("not measured") == 3


def test_two_copies_are_twice_the_figure_of_one(tmp_path: Path) -> None:
    text = _suggest(tmp_path, "chat", "--most", "99")
    row = next(line for line in text.splitlines() if line.startswith("qwen3.8-27b-nvfp4 "))
    assert re.split(r"\s{2,}", row) == ["qwen3.8-27b-nvfp4", "256K", "24.27", "2 x 24.27", "-"]
    row = next(line for line in text.splitlines() if line.startswith("qwen3.8-27b-nvfp4-tp2"))
    assert re.split(r"\s{2,}", row) == ["qwen3.8-27b-nvfp4-tp2", "256K", "-", "-", "37.35"]


def test_throughput_offers_copies_of_a_dense_model(tmp_path: Path) -> None:
    (dense,) = (
        candidate
        for candidate in _document(tmp_path, "throughput")
        if candidate["recipe"] == "qwen3.8-27b-nvfp4"
    )
    assert dense["command"] == "sparkfleet cluster.up --dp 2 --recipe qwen3.8-27b-nvfp4"
    assert [(start["command"].split()[2:4], start["decode"]) for start in dense["starts"]] == [
        (["--solo", "--recipe"], 24.27),
        (["--dp", "2"], 48.54),
    ]
    for purpose in ("chat", "coding"):  # one request is not answered sooner by copies
        for candidate in _document(tmp_path, purpose):
            assert "--dp" not in candidate["command"]
    assert "--dp" not in str(_document(tmp_path, "throughput", count=1))


def test_experts_and_images_with_programs_of_their_own_have_no_copies(tmp_path: Path) -> None:
    by_name = {each["recipe"]: each for each in _document(tmp_path, "throughput")}
    for name in (
        "nemotron-3.5-lightning-30b-a3b-nvfp4",
        "dflash-qwen3.5-27b",
        "laguna-xs.2-dflash",
    ):
        assert "--dp" not in str(by_name[name]), name
    text = _suggest(tmp_path, "chat", "--most", "99")
    row = next(line for line in text.splitlines() if line.startswith("nemotron-3.5-lightning"))
    assert "2 x 95.45*" in row
    assert "as two clusters of one Spark each" in text
    assert "Two copies at one address: sparkfleet cluster.up --dp 2 --recipe NAME." in text


def test_one_spark_has_no_columns_for_two(tmp_path: Path) -> None:
    text = _suggest(tmp_path, "chat", count=1)
    assert "two copies" not in text.splitlines()[1]
    names = {candidate["recipe"] for candidate in _document(tmp_path, "chat", count=1)}
    assert "qwen3.8-27b-nvfp4" in names
    assert "glm-5.3-flash-nvfp4" not in names
    assert "lab-tiny" not in names


def test_only_models_that_see_are_for_vision(tmp_path: Path) -> None:
    names = {candidate["recipe"] for candidate in _document(tmp_path, "vision")}
    assert {"qwen3.8-27b-nvfp4", "qwen3.8-27b-nvfp4-tp2", "gemma4-26b-a4b-nvfp4"} <= names
    assert not {"gpt-oss-120b", "gpt-oss-20b", "llama-3.3-70b-nvfp4"} & names


def test_coding_needs_tools_and_the_longest_context_is_first(tmp_path: Path) -> None:
    for candidate in _document(tmp_path, "coding"):
        args = load_recipe(candidate["recipe"]).vars["vllm_args"].data
        assert args["enable-auto-tool-choice"] is True
    contexts = [candidate["context"] for candidate in _document(tmp_path, "long-context")]
    assert contexts == sorted(contexts, reverse=True)
    assert min(contexts) >= 200_000


def test_a_measurement_of_these_hosts_replaces_the_published_figure() -> None:
    recipe = load_recipe("qwen3.8-27b-nvfp4")
    sample = Sample(step=DecodeStep(read=1.0, parts=1), seconds=0.05)
    steps = [
        MeasuredStep(
            recipe=recipe.name,
            nodes=1,
            requests=requests,
            context=0,
            at="2026-11-28",
            sample=sample,
        )
        for requests in (1, 4)
    ]
    (figure,) = _choose_figures(recipe, (1,), PURPOSES["chat"], steps)
    assert (figure.decode, figure.source) == (20.0, "serve.bench here, 2026-11-28")
    (figure,) = _choose_figures(recipe, (1,), PURPOSES["throughput"], steps)
    assert (figure.decode, figure.requests) == (80.0, 4)
    (figure,) = _choose_figures(recipe, (1,), PURPOSES["chat"], ())
    assert figure.decode == 24.27


def test_an_unknown_purpose_is_refused_with_those_that_exist(tmp_path: Path) -> None:
    text = _suggest(tmp_path, "poems", code=5)
    assert "one of coding, chat, vision, long-context, throughput" in text
