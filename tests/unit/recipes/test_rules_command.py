"""`recipes.validate` as it is typed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commandline import run_command

EXPECTED = """\
my.yml:
my.yml:3:3: error: --enable-auto-tool-choice: expected --tool-call-parser as well; saw no parser
      enable-auto-tool-choice: true
      ^
  tool_parser: vLLM exits with "--enable-auto-tool-choice requires --tool-call-parser" (guide 8; \
vLLM's cli_args.py, 0.16 to 0.33)
  write in vllm_args: tool-call-parser: NAME, as the model's document has it
source guide: "Dgx Vllm" by Flaviu Vlaicu, June 2026, https://vlaicu.io/posts/dgx-vllm/
1 recipe checked: 1 error
"""

Validate = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def validate(tmp_path: Path) -> Validate:
    def type_it(*words: str) -> subprocess.CompletedProcess[str]:
        return run_command("recipes.validate", *words, cwd=tmp_path)

    return type_it


def test_the_whole_catalogue_is_accepted(validate: Validate) -> None:
    done = validate("all")
    assert (done.returncode, done.stderr) == (0, "")
    assert " error" not in done.stdout.splitlines()[-1]


def test_a_finding_is_shown_with_its_line_reason_and_fix(
    validate: Validate, tmp_path: Path
) -> None:
    (tmp_path / "my.yml").write_text("vllm_model: a\nvllm_args:\n  enable-auto-tool-choice: true\n")
    done = validate("my.yml")
    assert done.returncode == 5
    assert done.stdout == EXPECTED


@pytest.mark.parametrize(
    ("args", "picture"),
    [
        ("\n  tensor-parallel-size: 2", "      tensor-parallel-size: 2\n      ^\n"),
        (" {api-key: one-secret, port: 2}", ""),
        ("\n  api-k: one-secret", ""),
    ],
)
def test_an_option_of_sparkfleet_is_shown_with_its_line_but_no_secret(
    validate: Validate, tmp_path: Path, args: str, picture: str
) -> None:
    (tmp_path / "my.yml").write_text(f"vllm_model: a\nvllm_args:{args}\n")
    done = validate("my.yml")
    assert done.returncode == 5
    assert ": expected unset: sparkfleet sets it itself; saw " in done.stdout
    assert picture in done.stdout
    assert "one-secret" not in done.stdout


def test_a_recipe_that_cannot_be_read_does_not_hide_the_others(
    validate: Validate, tmp_path: Path
) -> None:
    (tmp_path / "one.yml").write_text("vllm_modle: a\n")
    (tmp_path / "two.yml").write_text("vllm_model: google/gemma-4-31B-it\n")
    done = validate(".")
    assert done.returncode == 5
    assert "one.yml:1:1: error: unknown key 'vllm_modle' in a recipe" in done.stdout
    assert "did you mean 'vllm_model'?" in done.stdout
    assert done.stdout.splitlines()[-1] == "2 recipes checked: 1 error, 1 advice"


def test_the_version_that_will_run_can_be_given(validate: Validate, tmp_path: Path) -> None:
    (tmp_path / "my.yml").write_text("vllm_model: a\nvllm_args: {swap-space: 4}\n")
    assert validate("my.yml", "--vllm", "0.17.1").returncode == 0
    done = validate("my.yml", "--vllm", "0.21.0")
    assert done.returncode == 5
    assert "in vLLM 0.10.2 or before to 0.17.1" in done.stdout
    assert "expected a version" in validate("my.yml", "--vllm", "new").stderr


def test_a_group_is_judged_by_its_size(validate: Validate) -> None:
    assert validate("gemma4-26b-a4b-nvfp4").returncode == 0
    assert validate("gemma4-26b-a4b-nvfp4", "--tp", "2").returncode == 5


def test_the_same_is_reported_as_json(validate: Validate, tmp_path: Path) -> None:
    (tmp_path / "my.yml").write_text("vllm_model: a\nvllm_args: {dtype: 'x \\'}\n")
    done = validate("my.yml,nobodys", "--output", "json")
    assert done.returncode == 5
    mine, nobodys = json.loads(done.stdout)["recipes"]
    (verdict,) = mine["verdicts"]
    assert (verdict["check"], verdict["severity"]) == ("recipe.continuation", "error")
    assert verdict["source"] == "my.yml:2:13"
    assert verdict["reason"].endswith("(vLLM's argument parser (argparse))")
    assert nobodys["errors"][0]["message"] == "recipe 'nobodys' not found"
    assert (mine["refused"], nobodys["refused"]) == (True, True)


def test_a_template_needs_no_environment_to_be_judged(validate: Validate, tmp_path: Path) -> None:
    text = "vllm_model: a\nvllm_env: {HF_TOKEN: \"{{ lookup('env', 'NOBODYS_TOKEN') }}\"}\n"
    (tmp_path / "my.yml").write_text(text)
    assert validate("my.yml").stdout == "1 recipe checked: no problems\n"


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("chat-template: my.jinja", "weights_files: [my.jinja]"),
        ("speculative-config: {method: mtp, model: org/draft}", "weights_drafts: [org/draft]"),
        ('chat-template: "{{ folder }}/my.jinja"', ""),
        ("speculative-config: {method: mtp, num_speculative_tokens: 1}", ""),
    ],
)
def test_what_an_option_names_is_declared(
    validate: Validate, tmp_path: Path, option: str, expected: str
) -> None:
    recipe = f"vllm_model: a\nengine_image: a@sha256:{'0' * 64}\nvllm_args:\n  {option}\n"
    (tmp_path / "my.yml").write_text(recipe)
    done = validate("my.yml")
    assert done.returncode == (5 if expected else 0), done.stdout
    assert expected in done.stdout


CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 4,
    "hidden_size": 1024,
    "vocab_size": 32000,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "max_position_embeddings": 8192,
}


def _write_model(folder: Path, args: str) -> None:
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text(json.dumps(CONFIG))
    (folder / "my.yml").write_text(f"vllm_model: a\nvllm_args:\n  {args}\n")


def test_a_folder_adds_what_config_json_refuses(validate: Validate, tmp_path: Path) -> None:
    _write_model(tmp_path, "enable-expert-parallel: true")
    done = validate("my.yml", "--vllm", "0.32.0", "--tp", "3", "--folder", "model")
    assert done.returncode == 5
    assert "error: --enable-expert-parallel: expected unset: config.json" in done.stdout
    assert "error: attention heads: expected a multiple of --tp 3; saw 16\n" in done.stdout
    assert done.stdout.splitlines()[-1] == "1 recipe checked: 2 errors"
    assert validate("my.yml", "--vllm", "0.32.0", "--tp", "3").returncode == 0


def test_a_folder_adds_positions_and_stages_in_json_too(validate: Validate, tmp_path: Path) -> None:
    _write_model(tmp_path, "max-model-len: 16384")
    done = validate("my.yml", "--folder", "model", "--output", "json")
    (verdict,) = (
        one for one in json.loads(done.stdout)["recipes"][0]["verdicts"] if one["host"] == "my"
    )
    assert (done.returncode, verdict["check"]) == (5, "model.limits")
    assert "16384 is more than the 8192 positions" in verdict["seen"]
    staged = validate("my.yml", "--pp", "5", "--folder", "model")
    assert "error: layers: expected at least 5" in staged.stdout


@pytest.mark.parametrize("folder", [".", "nowhere"])
def test_a_folder_without_a_model_is_refused(
    validate: Validate, tmp_path: Path, folder: str
) -> None:
    _write_model(tmp_path, "max-model-len: 4096")
    done = validate("my.yml", "--folder", folder)
    assert (done.returncode, done.stdout) == (5, "")
    assert "not found" in done.stderr
    assert validate("my.yml", "--folder", "model").returncode == 0
