"""A secret on the command line would be kept on every host, so it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkfleet.cli.set_variables import parse_variables
from sparkfleet.errors import UsageError
from tests.commandline import run_command


@pytest.mark.parametrize(
    "item",
    [
        "vllm_env={VLLM_API_KEY: hunter2}",
        "{vllm_env: {VLLM_API_KEY: hunter2}}",
        '{"vllm_env": {"HF_TOKEN": "hunter2"}}',
        "cluster_rank_vars={0: {vllm_env: {HF_TOKEN: hunter2}}}",
        "vllm_env={MY_PASSWORD: 1234}",
    ],
)
def test_a_typed_secret_is_refused_and_not_repeated(item: str) -> None:
    with pytest.raises(UsageError, match="must not be typed") as caught:
        parse_variables([item])
    assert "hunter2" not in str(caught.value)
    assert "{from_file: PATH}" in str(caught.value.hint)


@pytest.mark.parametrize(
    "item",
    [
        "vllm_env={VLLM_API_KEY: {from_file: ~/key}}",
        "vllm_env={VLLM_API_KEY: \"{{ lookup('env', 'KEY') }}\"}",
        "vllm_env={VLLM_API_KEY: null}",
        "vllm_env={VLLM_LOGGING_LEVEL: DEBUG}",
        "vllm_args={hf-overrides: {eos_token_id: 2}}",
        "vllm_port=8001",
    ],
)
def test_a_reference_to_a_secret_is_taken(item: str) -> None:
    assert parse_variables([item])


INVENTORY = """\
sparks:
  hosts: {a: {}}
  vars:
    vllm_env: {VLLM_API_KEY: hunter2, HF_TOKEN: "{{ lookup('env', 'TOK') }}", PLAIN: shown}
"""
RECIPE = """\
description: a
source: b
vllm_model: org/m
engine_image: a:b
engine_args: [--env=HF_TOKEN=hunter2, "-e", "API_KEY=hunter2", "--cap-add=SYS_NICE"]
"""


@pytest.mark.parametrize(
    "words",
    [
        ("inventory.list",),
        ("inventory.host", "a"),
        ("inventory.host", "a", "--explain", "vllm_env"),
    ],
    ids=["list", "host", "explain"],
)
def test_an_inventory_is_shown_without_its_secrets(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "i.yml").write_text(INVENTORY)
    done = run_command(*words, "-i", "i.yml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "hunter2" not in done.stdout
    assert "(secret)" in done.stdout
    assert "shown" in done.stdout


def test_an_error_in_the_line_of_a_secret_does_not_quote_it(tmp_path: Path) -> None:
    (tmp_path / "i.yml").write_text(INVENTORY.replace("hunter2,", "hunter2: x,"))
    done = run_command("inventory.list", "-i", "i.yml", cwd=tmp_path)
    assert done.returncode == 5
    assert "i.yml:4:" in done.stderr
    assert "hunter2" not in done.stdout + done.stderr


@pytest.mark.parametrize("form", [(), ("--output", "json")], ids=["text", "json"])
def test_a_recipe_is_shown_without_the_secrets_of_its_options(
    tmp_path: Path, form: tuple[str, ...]
) -> None:
    (tmp_path / "r.yml").write_text(RECIPE)
    done = run_command("recipes.show", "r.yml", *form, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "hunter2" not in done.stdout
    assert "HF_TOKEN=(secret)" in done.stdout
    assert "SYS_NICE" in done.stdout
