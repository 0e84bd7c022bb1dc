"""C33: "chat template appears path-like, but doesn't exist": it was on the host only."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkfleet.errors import InputError, RecipeError
from sparkfleet.weights.wanted import stocks_of
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
        stocks_of(own)


def test_a_file_that_is_not_declared_is_an_error_at_plan_time() -> None:
    with pytest.raises(RecipeError) as caught:
        deployed(vllm_args={"chat-template": "unsloth.jinja"})
    assert caught.value.hint is not None
    assert "weights_files: [unsloth.jinja]" in caught.value.hint
