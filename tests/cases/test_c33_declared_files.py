"""C33: "chat template appears path-like, but doesn't exist": it was on the host only."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkfleet.errors import InputError, RecipeError
from sparkfleet.launch import staged_paths
from sparkfleet.launch.preflight.preflight import check_engine_settings
from sparkfleet.weights.required_models import resolve_required_models
from tests.engines import deployed, executed, settings


@pytest.mark.parametrize("written", ["unsloth.jinja", "./unsloth.jinja", "{folder}/unsloth.jinja"])
def test_the_option_gets_the_path_that_the_container_has(tmp_path: Path, written: str) -> None:
    declared = str(tmp_path / "unsloth.jinja")
    option = {"chat-template": written.format(folder=tmp_path)}
    _, files = deployed(weights_files=[declared], vllm_args=option)
    words = executed(files["spark-1"]["vllm-serve.sh"])
    assert words[words.index("--chat-template") + 1] == "/models/unsloth.jinja"


def test_a_file_of_the_hub_and_a_local_draft_are_found_too(tmp_path: Path) -> None:
    _, files = deployed(
        weights_files=["nvidia/Nemotron@abc:nano_v3_reasoning_parser.py"],
        weights_drafts=[str(tmp_path / "draft")],
        vllm_args={
            "reasoning-parser-plugin": "nano_v3_reasoning_parser.py",
            "speculative-config": {"model": "draft", "method": "mtp"},
        },
    )
    words = executed(files["spark-1"]["vllm-serve.sh"])
    assert "/models/nano_v3_reasoning_parser.py" in words
    assert '{"model":"/models/draft","method":"mtp"}' in words


def test_without_containers_it_is_the_hosts_own_path(tmp_path: Path) -> None:
    _, files = deployed(
        engine="native",
        engine_venv="~/v",
        weights_files=[str(tmp_path / "unsloth.jinja")],
        vllm_args={"chat_template": "unsloth.jinja"},
    )
    words = executed(files["spark-1"]["vllm-serve.sh"])
    assert words[words.index("--chat-template") + 1] == "/home/nvidia/vllm/unsloth.jinja"


def test_a_file_that_is_not_there_is_an_error_at_plan_time(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text("{}")
    own = settings(
        weights_source=str(tmp_path / "model"), weights_files=[str(tmp_path / "none.jinja")]
    )
    with pytest.raises(InputError, match=r"none\.jinja"):
        resolve_required_models(own)


def test_a_file_that_is_not_declared_is_an_error_at_plan_time() -> None:
    with pytest.raises(RecipeError) as caught:
        deployed(vllm_args={"chat-template": "unsloth.jinja"})
    assert caught.value.hint is not None
    assert "weights_files: [unsloth.jinja]" in caught.value.hint


DRAFT = "google/gemma-4-31B-it-assistant"
FOLDER = "hub/models--google--gemma-4-31B-it-assistant/snapshots/9f1c"


# oumi-ai/oumi#2523, vllm-project/vllm#1824: by its id a model is looked for as `main`, at the Hub.
@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("speculative-config", {"model": DRAFT}, [f'{{"model":"/models/{FOLDER}"}}']),
        ("speculative_config", f'{{"model": "{DRAFT}"}}', [f'{{"model":"/models/{FOLDER}"}}']),
        ("speculative-config", '{"model": "@MODEL@/mtp"}', ['{"model": "/models/org/model/mtp"}']),
        ("lora-modules", [f"fr={DRAFT}"], [f"fr=/models/{FOLDER}"]),
        (
            "lora-modules",
            [{"name": "fr", "path": DRAFT}],
            [f'{{"name":"fr","path":"/models/{FOLDER}"}}'],
        ),
        ("tokenizer", "org/model", ["/models/org/model"]),
    ],
)
def test_a_model_that_is_declared_is_named_by_its_folder_of_one_commit(
    option: str, value: object, words: list[str]
) -> None:
    own = settings(weights_drafts=[f"{DRAFT}@9f1c"], vllm_args={option: value})
    found = staged_paths.build_user_arguments(own, "/models", "/models/org/model", {DRAFT: FOLDER})
    assert list(found[1:]) == words


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("speculative-config", {"method": "mtp", "model": DRAFT}),
        ("speculative-config", f'{{"model": "{DRAFT}"}}'),
        ("lora-modules", f"fr={DRAFT}"),
        ("lora-modules", [{"name": "fr", "path": DRAFT}]),
    ],
)
def test_a_model_that_is_not_declared_is_an_error_at_plan_time(option: str, value: object) -> None:
    with pytest.raises(RecipeError, match=f"names the model {DRAFT}") as caught:
        check_engine_settings(settings(vllm_args={option: value}))
    assert f"weights_drafts: [{DRAFT}]" in str(caught.value.hint)
    check_engine_settings(settings(weights_drafts=[DRAFT], vllm_args={option: value}))


@pytest.mark.parametrize(
    ("words", "paths"),
    [
        (["--chat-template", "a.jinja"], ["--chat-template", "/models/a.jinja"]),
        (["--chat-template=a.jinja"], ["--chat-template=/models/a.jinja"]),
        (
            ["--speculative-config.model", DRAFT],
            ["--speculative-config.model", f"/models/{FOLDER}"],
        ),
        (["-sc", f'{{"model":"{DRAFT}"}}'], ["-sc", f'{{"model":"/models/{FOLDER}"}}']),
    ],
)
def test_words_of_a_command_line_name_staged_files_too(words: list[str], paths: list[str]) -> None:
    own = settings(weights_files=["a.jinja"], weights_drafts=[DRAFT], vllm_raw_args=words)
    found = staged_paths.build_user_arguments(own, "/models", "/models/org/model", {DRAFT: FOLDER})
    assert list(found) == paths


@pytest.mark.parametrize(
    "words",
    [
        ["--chat-template", "a.jinja"],
        ["--chat_template=a.jinja"],
        ["--speculative-config.model", DRAFT],
        ["-sc", f'{{"model":"{DRAFT}"}}'],
        ["--lora-modules", "a=/a", f"b={DRAFT}"],
    ],
)
def test_words_of_a_command_line_that_name_what_is_not_staged_are_an_error(
    words: list[str],
) -> None:
    with pytest.raises(RecipeError, match="does not declare"):
        check_engine_settings(settings(vllm_raw_args=words))
