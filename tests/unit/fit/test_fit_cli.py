"""`recipes.fit` as it is typed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.cli.options import parse_options
from sparkfleet.cli.recipes.fitting.fit import show_fit
from sparkfleet.cli.recipes.fitting.values import FitRequest
from sparkfleet.cli.recipes.options import FitOptions
from sparkfleet.errors import InputError
from tests.models import config

RECIPE = """\
description: A test
source: nobody
vllm_model: nobody/model
checkpoint: {format: modelopt, size: 16.5GB, parameters: 25.2B, active: 3.8B, moe: true}
vllm_args:
  max-model-len: 131072
  kv-cache-dtype: fp8
  gpu-memory-utilization: 0.85
speeds:
  - {nodes: 1, decode: 51.6, source: "a document", date: 2026-04-05}
  - {nodes: 2, decode: 60, source: "another", date: 2026-04}
"""
Call = Callable[..., "Done"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The end of a call."""

    returncode: int
    stdout: str


@pytest.fixture
def call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    """Call `recipes.fit` in a folder with a recipe and a model's config."""
    monkeypatch.delenv("SPARKFLEET_INVENTORY", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.yml").write_text(RECIPE)
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text(config("gemma-4-26b-a4b-it-nvfp4"))

    def type_it(recipe: str, **options: Any) -> Done:
        typed = {"recipe": recipe, **options}
        parsed = parse_options(FitOptions, "recipes.fit", typed)
        code = show_fit(FitRequest.from_options(parsed))
        return Done(returncode=code, stdout=capsys.readouterr().out)

    return type_it


def test_a_folder_is_enough_for_a_whole_estimate(call: Call) -> None:
    done = call("r.yml", folder="model")
    assert done.returncode == 0
    assert "4,929,497 to 5,175,588" in done.stdout  # 37.6 to 39.5 sequences of 131,072
    assert re.search(
        r"51\.6 tok/s +1 +- +\S+ to \S+ +as predicted +a document, 2026-04-05", done.stdout
    )
    assert "another" not in done.stdout
    assert "advice: solo" in done.stdout


def test_without_a_place_to_look_the_recipe_gives_bounds(call: Call) -> None:
    done = call("r.yml")
    assert done.returncode == 0
    assert "the model's files were not read; to read them: --folder PATH, --staged" in done.stdout
    assert "109.7 tok/s at most" in done.stdout
    assert "unknown KV cache" in done.stdout


def test_the_memory_next_to_known_weights_is_shown_without_a_config(call: Call) -> None:
    assert "the weights fit, and " in call("gpt-oss-120b").stdout


def test_options_stand_over_the_recipe(call: Call) -> None:
    done = call("r.yml", folder="model", util="0.5", max_model_len="64K", tp="2")
    assert done.returncode == 0
    assert "TP=2, util 0.5, context 65536" in done.stdout
    assert "spark-2" in done.stdout
    assert re.search(r"60 tok/s .*another, 2026-04", done.stdout)


def test_sparks_that_share_the_layers_count_for_the_smallest_size_as_in_a_start(
    call: Call, tmp_path: Path
) -> None:
    (tmp_path / "two.yml").write_text("extends: r.yml\ntp_min: 2\n")
    assert "TP=1, PP=2" in call("two.yml", folder="model", tp="1", pp="2").stdout
    with pytest.raises(InputError, match="needs --tp >= 2"):
        call("two.yml", folder="model", tp="1")


def test_a_start_that_cannot_fit_ends_with_2(call: Call) -> None:
    done = call("r.yml", folder="model", util="0.99")
    assert done.returncode == 2
    assert "spark-1: it does not fit: util 0.99 takes 120.4 GiB" in done.stdout


def test_a_start_that_vllm_refuses_has_no_speed(call: Call) -> None:
    done = call("r.yml", folder="model", tp="3")
    assert done.returncode == 2
    assert "3 does not divide its" in done.stdout
    assert "decode: none, as vLLM refuses this start" in done.stdout


def test_several_requests_share_the_read(call: Call) -> None:
    done = call("r.yml", folder="model", requests="3", context="1000")
    assert "decode, 3 concurrent requests, 1000 tokens in the cache" in done.stdout


def test_the_document_has_what_the_text_has(call: Call) -> None:
    done = call("r.yml", folder="model", output="json")
    content = json.loads(done.stdout)
    assert content["nodes"]["spark-1"]["answer"] == "fits"
    assert content["nodes"]["spark-1"]["highest_util"] == 0.97
    assert content["decode"]["expected"]["low"] < 51.6 < content["decode"]["expected"]["high"]
    assert content["advice"]["choice"] == "solo"
    assert content["unknown"] == []


def test_an_inventory_that_is_named_gives_the_nodes_and_their_reserve(
    call: Call, tmp_path: Path
) -> None:
    hosts = "sparks: {hosts: {here: {vllm_memory_reserve: 30GiB}}}\n"
    (tmp_path / "hosts.yml").write_text(hosts)
    done = call("r.yml", folder="model", inventory=["hosts.yml"])
    assert done.returncode == 2
    assert "here: it does not fit" in done.stdout
    assert "30.0 GiB are kept for other services" in done.stdout


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="a GPU here has its own memory")
def test_hosts_report_what_is_staged_and_their_memory(call: Call, tmp_path: Path) -> None:
    staged = tmp_path / "weights/hub/models--nobody--model"
    (staged / "refs").mkdir(parents=True)
    (staged / "refs/main").write_text("abc")
    (staged / "snapshots").mkdir()
    (tmp_path / "model").rename(staged / "snapshots/abc")
    variables = {
        "ansible_connection": "local",
        "engine_venv": "/nowhere",
        "weights_dir": str(tmp_path / "weights"),
    }
    inventory = {"sparks": {"hosts": {"here": variables}}}
    (tmp_path / "hosts.yml").write_text(json.dumps(inventory))
    done = call("r.yml", staged=True, inventory=["hosts.yml"], output="json")
    content = json.loads(done.stdout)
    assert content["notes"] == ["read: staged on here"]
    total = int(Path("/proc/meminfo").read_text().split()[1]) * 1024
    assert content["nodes"]["here"]["room"]["total"] == total
    assert content["sequence_bytes"] is not None


def test_the_tokens_of_the_log_are_counted_as_the_version_of_the_image_does(call: Call) -> None:
    image = "\nengine_image: vllm/vllm-openai:v0.19.0-cu130\n"
    Path("old.yml").write_text(RECIPE + image)
    assert "700,128 to 735,072" in call("old.yml", folder="model").stdout


@pytest.mark.parametrize("typed", ["auto", "-1"])
def test_auto_is_the_longest_context_that_fits(call: Call, typed: str) -> None:
    done = call("r.yml", folder="model", max_model_len=typed)
    assert done.returncode == 0
    assert "the longest context that fits" in done.stdout
    assert "vLLM takes the longest context that fits, 262,144 tokens" in done.stdout


def test_a_context_beyond_the_positions_is_refused_before_the_memory_is(call: Call) -> None:
    done = call("r.yml", folder="model", max_model_len="512K")
    assert done.returncode == 2
    assert "max-model-len 524288 is more than the 262144 positions of config.json" in done.stdout


def test_a_cache_of_the_hub_is_refused_with_the_snapshot_to_name(
    call: Call, tmp_path: Path
) -> None:
    snapshot = tmp_path / "hub/models--nobody--model/snapshots/0123abcd"
    snapshot.mkdir(parents=True)
    shutil.copy(tmp_path / "model/config.json", snapshot)
    for folder in ("hub/models--nobody--model", "hub", "."):
        with pytest.raises(InputError, match="cache of the Hub's client") as caught:
            call("r.yml", folder=folder)
        assert caught.value.hint is not None
        assert caught.value.hint.endswith("hub/models--nobody--model/snapshots/0123abcd")
    assert call("r.yml", folder=str(snapshot)).returncode == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"recipe": "nothing-like-it"}, "recipe 'nothing-like-it' not found"),
        ({"util": "1.5"}, "--util: expected a number > 0 and <= 1"),
        ({"util": "-1"}, "--util: expected a number > 0 and <= 1"),
        ({"max_model_len": "-4"}, "--max-model-len: expected a number of tokens"),
        ({"max_num_seqs": "0"}, "--max-num-seqs: expected an integer from 1 to"),
        ({"requests": "none"}, "--requests: expected an integer from 1 to"),
        ({"context": "much"}, "--context: expected a number of tokens"),
        ({"tp": "0"}, "--tp: expected an integer from 1 to"),
        ({"folder": "nowhere"}, "folder nowhere not found"),
        ({"folder": "model", "hub": True}, "--folder and --hub cannot be combined: each reads"),
        ({"set": ["vllm_args={gpu-memory-utilization: 3}"]}, "(got 3)"),
    ],
)
def test_wrong_input_is_explained_and_ends_with_5(
    call: Call, options: dict[str, Any], expected: str
) -> None:
    with pytest.raises(InputError) as raised:
        call(**{"recipe": "r.yml", **options})
    assert expected in str(raised.value)
    assert raised.value.exit_code == 5


@pytest.mark.usefixtures("call")
def test_nothing_heavy_and_no_network_is_loaded_for_a_folder(tmp_path: Path) -> None:
    code = (
        "import sys, runpy, socket\n"
        "def refuse(*_args): raise AssertionError('network')\n"
        "socket.socket.connect = refuse\n"
        "sys.argv = ['sparkfleet', 'recipes.fit', 'r.yml', '--folder', 'model']\n"
        "try: runpy.run_module('sparkfleet', run_name='__main__')\n"
        "except SystemExit as end: print('ENDED', end.code)\n"
        "print('\\nLOADED', *sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert "ENDED 0" in done.stdout
    loaded = {name.split(".")[0] for name in done.stdout.split("\nLOADED ")[1].split()}
    assert not loaded & {"fabric", "paramiko", "ray"}
