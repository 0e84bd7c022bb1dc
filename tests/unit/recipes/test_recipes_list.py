"""`recipes.list` at every width, and with the Sparks of an inventory."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.cli.recipes.list import COMPARED, align_columns
from sparkfleet.recipes.recipe import FIRST_TRY
from sparkfleet.resources import list_data_files
from tests.commandline import run_command
from tests.documents import SEEDS

CATALOGUE = set(list_data_files("playbooks/recipes", ".yml"))
HOST = "{ansible_host: 192.0.2.%d}"


def _list(folder: Path, *words: str, columns: int = 200) -> list[str]:
    environment = {**os.environ, "COLUMNS": str(columns)}
    done = run_command("recipes.list", *words, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def _write_inventory(folder: Path, count: int) -> None:
    hosts = ", ".join(f"s{at}: {HOST % at}" for at in range(1, count + 1))
    (folder / "hosts.yml").write_text(f"sparks: {{hosts: {{{hosts}}}}}\n")


def _names(lines: list[str]) -> set[str]:
    return {line.split()[0] for line in lines[1:-1]} & CATALOGUE


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("words", [(), ("--fits", "-i", "hosts.yml"), ("--group", "sparks")])
def test_no_line_is_wider_than_the_terminal(
    tmp_path: Path, columns: int, words: tuple[str, ...]
) -> None:
    _write_inventory(tmp_path, 4)
    lines = _list(tmp_path, *words, columns=columns)
    assert max(map(len, lines)) <= columns
    assert _names(lines) >= CATALOGUE - {"deepseek-v4.1-flash"}
    assert lines[-1] == COMPARED


def test_the_whole_catalogue_ends_with_what_to_choose_and_a_search_does_not(tmp_path: Path) -> None:
    lines = _list(tmp_path)
    assert f"a first try: {FIRST_TRY}; one explained: sparkfleet recipes.show NAME" in lines
    assert not [line for line in _list(tmp_path, "--search", "gpt-oss") if "first try" in line]


def test_a_wide_terminal_has_every_column_and_a_narrow_one_fewer(tmp_path: Path) -> None:
    wide, narrow = (_list(tmp_path, columns=width)[0] for width in (200, 80))
    assert re.split(r"\s{2,}", wide) == [
        *("recipe", "model", "Sparks", "date", "on disk"),
        "best published decode",
    ]
    assert re.split(r"\s{2,}", narrow) == ["recipe", "Sparks", "date", "on disk", "tok/s"]


def test_a_name_that_is_too_long_has_a_line_of_its_own() -> None:
    rows = [{"recipe": "recipe", "fits": "fits"}, {"recipe": "x" * 50, "fits": "y" * 20}]
    assert align_columns(rows, 60) == [
        ["recipe" + " " * 32 + "fits"],
        ["x" * 50, " " * 38 + "y" * 20],
    ]


def test_the_line_about_the_sources_has_the_date_of_the_seeds() -> None:
    (date,) = re.findall(r"\d{4}-\d\d-\d\d", COMPARED)
    text = (SEEDS / "6-models-autumn-2026.md").read_text()
    assert f"Compared with the sources on {date}." in text


def test_recipes_can_be_grouped_by_the_sparks_that_they_need(tmp_path: Path) -> None:
    lines = _list(tmp_path, "--group", "sparks")
    titles = [line for line in lines if line.endswith(":")]
    assert titles == ["1 Spark:", "2 Sparks:", "3 Sparks:", "4 Sparks:"]


def test_one_spark_has_no_recipes_for_two(tmp_path: Path) -> None:
    _write_inventory(tmp_path, 1)
    lines = _list(tmp_path, "--fits", "-i", "hosts.yml")
    rows = {line.split()[0]: line for line in lines}
    assert "qwen3.8-27b-nvfp4" in rows
    assert "published on 1" in rows["qwen3.8-27b-nvfp4"]
    assert "weights fit on 1" in rows["mistral-small-4-119b-nvfp4"]
    assert not {"qwen3.8-27b-nvfp4-tp2", "glm-5.3-flash-nvfp4", "minimax-m2.7-awq"} & rows.keys()


def test_the_document_says_why_a_recipe_fits(tmp_path: Path) -> None:
    _write_inventory(tmp_path, 2)
    lines = _list(tmp_path, "--fits", "-i", "hosts.yml", "--output", "json")
    recipes: dict[str, Any] = {
        recipe["name"]: recipe for recipe in json.loads("\n".join(lines))["recipes"]
    }
    fit = recipes["qwen3.8-27b-nvfp4-tp2"]["fit"]
    assert (fit["nodes"], fit["fit"]) == (2, "published")
    assert fit["why"].startswith("measured: NVIDIA/local-ai-inference-recipes")


def test_a_reserve_of_the_inventory_counts(tmp_path: Path) -> None:
    _write_inventory(tmp_path, 1)
    words = ("--fits", "-i", "hosts.yml", "--set", "vllm_memory_reserve=110GiB")
    names = _names(_list(tmp_path, *words))
    assert "mistral-small-4-119b-nvfp4" not in names
    assert "gpt-oss-20b" not in names
