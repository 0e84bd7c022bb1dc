"""The rules of recipes on lab hosts: a refusal comes before anything is changed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkfleet.lab import fleet
from tests.commandline import Done, run_as_typed
from tests.standin import engine

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]
HOST = "spark-01"
OPTIONS = "add('--only-here', '--max-model-len', '--kv-cache-memory-bytes')\n"
ARGS = "vllm_args:\n"
SERVER = "class FrontendArgs:\n    host: str\n    port: int\n"


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    found = fleet.start_fleet(1)
    engine.install(HOST)
    yield engine.inventory(found, tmp_path_factory.mktemp("standin"))
    fleet.remove_fleet()


def _up(inventory: Path, recipe: str, *words: str) -> Done:
    path = inventory.parent / "made.yml"
    path.write_text(f"extends: {engine.RECIPE}\n{recipe}")
    options = ("--solo", "--recipe", str(path), "--inventory", str(inventory), *words)
    return run_as_typed("cluster.up", *options)


def test_a_refused_recipe_changes_no_host(inventory: Path) -> None:
    done = _up(inventory, ARGS + "  swap-space: 4\n  gpu-memory-utilization: 0.99\n")
    assert done.code == 5, done.output
    assert "made.yml:3:3: --swap-space in vllm_args: expected an option of vLLM 0.32.0" in (
        done.output
    )
    assert "made.yml:4:3: --gpu-memory-utilization" in done.output
    files = fleet.run_on(HOST, ["find", "/home/nvidia/vllm", "-type", "f"], check=False).stdout
    assert [line for line in files.splitlines() if not line.endswith(("lock", "lock-last"))] == []


def test_what_is_accepted_is_shown_and_goes_on(inventory: Path) -> None:
    recipe = ARGS + "  enable-auto-tool-choice: true\nvllm_accept: [tool_parser]\n"
    done = _up(inventory, recipe, "--check")
    assert done.code == 0, done.output
    assert "made: --enable-auto-tool-choice: expected --tool-call-parser as well" in done.output


def test_an_adapter_that_was_staged_is_read_before_the_start(inventory: Path) -> None:
    for folder, rank in ((inventory.parent / "standin/sql", 64), (inventory.parent / "own", 32)):
        folder.mkdir()
        config = {"r": rank, "lora_alpha": 16, "target_modules": ["q_proj"]}
        (folder / "adapter_config.json").write_text(json.dumps(config))
    recipe = (
        f"weights_drafts: [{inventory.parent}/own]\n{ARGS}"
        "  enable-lora: true\n  lora-modules: [sql=@MODEL@/sql, own=own]\n"
    )
    done = _up(inventory, recipe)
    assert done.code == 2, done.output
    assert "the adapter sql: expected a rank of 16 at most" in done.output
    assert "the adapter own: expected a rank of 16 at most" in done.output


def test_an_engine_without_a_release_is_asked_for_its_options(inventory: Path) -> None:
    engine.version_on(HOST, "vllm", "0.99.0.dev1")
    vllm = engine.on(HOST, engine.PACKAGES) / "vllm"
    (vllm / "engine/arg_utils.py").write_text(OPTIONS)
    (vllm / "entrypoints/openai").mkdir(parents=True)
    (vllm / "entrypoints/openai/cli_args.py").write_text(SERVER)
    done = _up(inventory, ARGS + "  only-here: 1\n", "--check")
    assert done.code == 0, done.output
    done = _up(inventory, ARGS + "  only-her: 1\n", "--check")
    assert done.code == 5, done.output
    assert "did you mean 'only-here'?" in done.output
    assert "expected an option of vLLM 0.99.0.dev1, installed" in done.output
