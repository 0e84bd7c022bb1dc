"""`recipes.import`, `recipes.export`, and the direct use of recipes of others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commandline import UNREACHABLE, run_command
from tests.documents import SEEDS

FOLDER = SEEDS / "recipes-of-others"
Call = Callable[..., str]
MOD = "#!/bin/bash\necho patched\n"
RECIPE = """\
recipe_version: "1"
name: small
description: A small model
container: vllm-node
mods: [mods/fix]
defaults: {port: 8000, max_model_len: 4096}
command: |
  vllm serve org/Small --port {port} --max-model-len {max_model_len}
"""


@pytest.fixture
def call(tmp_path: Path) -> Call:
    """Type a task in an empty folder and return what it prints."""

    def type_it(*words: str, code: int = 0) -> str:
        done = run_command(*words, cwd=tmp_path)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + (done.stderr if code else "")

    return type_it


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Write a clone of another project, with one recipe and its mod."""
    mod = tmp_path / "theirs" / "mods" / "fix"
    mod.mkdir(parents=True)
    (mod / "run.sh").write_text(MOD)
    recipes = tmp_path / "theirs" / "recipes"
    recipes.mkdir()
    (recipes / "small.yaml").write_text(RECIPE)
    return tmp_path / "theirs"


def test_an_import_shows_values_with_lines_and_the_whole_text_of_mods(
    call: Call, repository: Path, tmp_path: Path
) -> None:
    text = call("recipes.import", "theirs/recipes/small.yaml", "--check")
    assert "from theirs/recipes/small.yaml, a recipe of eugr" in text
    assert "--max-model-len: 4096  (line 6)" in text
    assert "vllm_model: org/Small  (line 8)" in text
    assert "mod theirs/mods/fix, run as root in every container:" in text
    assert "echo patched" in text
    assert "1 would be imported" in text
    assert not (tmp_path / "playbooks").exists()


def test_mods_are_not_copied_without_a_yes(call: Call, repository: Path, tmp_path: Path) -> None:
    text = call("recipes.import", "theirs/recipes/small.yaml", code=5)
    assert "not confirmed: third-party code runs as root in the image" in text
    assert not (tmp_path / "playbooks").exists()


def test_an_imported_recipe_has_its_mods_in_the_project(
    call: Call, repository: Path, tmp_path: Path
) -> None:
    (repository / "mods" / "fix" / "link").symlink_to("/etc/hostname")
    call("recipes.import", "theirs/recipes/small.yaml", "--yes")
    mod = tmp_path / "playbooks/recipes/mods/small/fix"
    assert (mod / "run.sh").read_text() == MOD
    assert [path.name for path in mod.iterdir()] == ["run.sh"]
    text = call("recipes.show", "small")
    assert 'engine_mods: ["playbooks/recipes/mods/small/fix"]' in text
    assert "playbooks/recipes/small.yml" in text
    assert "small" in call("recipes.list", "--search", "org/Small")
    again = call("recipes.import", "theirs/recipes/small.yaml", "--yes", code=5)
    assert "playbooks/recipes/small.yml already exists" in again
    assert "--name OTHER" in again


def test_a_mod_that_is_missing_refuses_the_import(call: Call, repository: Path) -> None:
    (repository / "mods" / "fix" / "run.sh").unlink()
    text = call("recipes.import", "theirs/recipes/small.yaml", code=5)
    assert "theirs/recipes/small.yaml:5:8: the mod mods/fix was not found" in text


def test_a_folder_imports_what_it_can_and_names_the_rest(
    call: Call, repository: Path, tmp_path: Path
) -> None:
    recipes = repository / "recipes"
    (recipes / "bad.yaml").write_text(RECIPE.replace("name: small\n", ""))
    (recipes / "other.yaml").write_text(RECIPE.replace("mods: [mods/fix]\n", ""))
    (recipes / "notes.yaml").write_text("some: notes\n")
    text = call("recipes.import", "theirs", "--yes", code=5)
    assert "theirs/recipes/bad.yaml:1:1: missing name" in text
    assert "2 imported, 1 problem" in text
    written = sorted(path.name for path in (tmp_path / "playbooks/recipes").glob("*.yml"))
    assert written == ["other.yml", "small.yml"]


def test_an_import_as_json_has_values_notes_and_mods(call: Call, repository: Path) -> None:
    document = json.loads(
        call("recipes.import", "theirs/recipes/small.yaml", "--check", "--output", "json")
    )
    (recipe,) = document["recipes"]
    assert recipe["format"] == "eugr"
    values = {value["name"]: value for value in recipe["values"]}
    assert values["vllm_model"]["value"] == "org/Small"
    assert values["vllm_model"]["where"] == "theirs/recipes/small.yaml:8:14"
    assert recipe["mods"] == ["playbooks/recipes/mods/small/fix"]
    assert any("published as eugr/spark-vllm:latest" in note["message"] for note in recipe["notes"])


def test_a_recipe_of_nvidia_is_named_by_model_and_hardware(call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "theirs/models/minimax/minimax-m2.7/dgx-spark-2gpu/linux/vllm/nvfp4"
    folder.mkdir(parents=True)
    source = FOLDER / "nvidia" / "minimax-m2.7-dgx-spark-2gpu.yaml"
    (folder / "recipe.yaml").write_text(source.read_text())
    call("recipes.import", "theirs")
    name = "minimax-m2.7-dgx-spark-2gpu-nvfp4"
    text = (tmp_path / f"playbooks/recipes/{name}.yml").read_text()
    assert "limitations: it has no MTP" in text
    assert "tp_min: 2" in text


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["recipes.import"], "recipes.import needs SOURCE"),
        (["recipes.import", "none.yaml"], "none.yaml not found"),
        (["recipes.import", "."], "no recipes in ."),
        (["recipes.import", "mine.yml"], "is not a recipe of eugr, sparkrun"),
        (["recipes.export", "gpt-oss-20b", "--to", "nvidia"], "one of eugr, sparkrun"),
    ],
)
def test_a_wrong_call_says_what_to_type(
    call: Call, words: list[str], part: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.yml").write_text("vllm_model: a/b\n")
    assert part in call(*words, code=5)


def test_an_export_can_be_used_as_it_is(call: Call, tmp_path: Path) -> None:
    text = call("recipes.export", "qwen3.8-27b-nvfp4-tp2", "--to", "sparkrun")
    (tmp_path / "out.yaml").write_text(text)
    shown = call("recipes.show", "out.yaml")
    assert "--load-format: safetensors" in shown
    assert 'weights_drafts: ["z-lab/Qwen3.8-27B-DFlash2"]' in shown
    document = json.loads(
        call("recipes.export", "qwen3.8-27b-nvfp4-tp2", "--to", "eugr", "--output", "json")
    )
    assert "speeds has no counterpart" in document["left_out"]


def test_a_file_of_others_is_used_directly(call: Call) -> None:
    path = str(FOLDER / "eugr" / "deepseek-v4-flash-0731.yaml")
    shown = call("recipes.show", path)
    assert "recipe of eugr" in shown
    assert "deepseek-v4-flash-0731.yaml" in shown
    assert "set at line 16" in shown
    call("recipes.validate", path)


def test_mods_of_others_are_shown_before_a_start_and_need_a_yes(
    call: Call, repository: Path, tmp_path: Path
) -> None:
    (tmp_path / "inventory.yml").write_text(UNREACHABLE)
    words = ["cluster.up", "--solo", "-i", "inventory.yml", "--recipe", "theirs/recipes/small.yaml"]
    text = call(*words, code=5)
    assert "echo patched" in text
    assert "not confirmed: third-party code runs as root in the image: theirs/mods/fix" in text
    text = call(*words, "--check", code=4)  # nothing answers there
    assert "echo patched" in text
    assert "not confirmed" not in text


def test_an_export_leaves_out_what_only_this_machine_has_and_says_so(call: Call) -> None:
    document = json.loads(
        call("recipes.export", "mimo-v2.6-flash", "--to", "eugr", "--output", "json")
    )
    assert "@MODEL@" not in document["text"]
    assert any(text.startswith("MIMO_V26_MODEL_DIR of vllm_env") for text in document["left_out"])
    words = ("recipes.export", "gemma4-26b-a4b-nvfp4-community", "--to", "sparkrun")
    left_out = json.loads(call(*words, "--output", "json"))["left_out"]
    assert "engine_mounts has no counterpart; without it the model may not start" in left_out


def test_a_program_of_an_image_is_not_exported(call: Call) -> None:
    text = call("recipes.export", "dflash-qwen3.5-27b", "--to", "eugr", code=5)
    assert "starts the program of its image, but eugr can only express `vllm serve`" in text


@pytest.mark.parametrize(
    ("source", "text", "parts"),
    [
        ("note.txt", "just text\n", ["expected a mapping", "expected a recipe of eugr, sparkrun"]),
        ("empty.yaml", "", ["the recipe is empty", "expected a recipe of eugr, sparkrun"]),
        (
            "cut.yaml",
            'name: "x\n',
            ["cut.yaml:1:7: invalid YAML: unclosed quote", "is the file complete?"],
        ),
        ("https://example.invalid/a/b", None, ["recipes.add https://example.invalid/a/b"]),
        ("none.yaml", None, ["none.yaml not found"]),
    ],
)
def test_what_cannot_be_imported_says_what_can(
    call: Call, tmp_path: Path, source: str, text: str | None, parts: list[str]
) -> None:
    if text is not None:
        (tmp_path / source).write_text(text)
    shown = call("recipes.import", source, code=5)
    for part in parts:
        assert part in shown


def test_a_name_that_was_given_is_not_asked_for_again(call: Call, repository: Path) -> None:
    shown = call("recipes.import", "theirs/recipes/small.yaml", "--name", "a/b", code=5)
    assert "use letters, digits, dots, - and _" in shown


def test_a_name_that_looks_like_an_option_is_refused(call: Call, repository: Path) -> None:
    shown = call("recipes.import", "theirs/recipes/small.yaml", "--name=-x", code=5)
    assert "'-x' is not a valid file name" in shown


def test_a_note_has_no_control_characters(call: Call, tmp_path: Path) -> None:
    (tmp_path / "nul.yml").write_text(
        'name: "a\\0b"\nmodel: "a/b\\0"\nrecipe_version: "1"\n'
        "container: c\ncommand: vllm serve a/b\n"
    )
    call("recipes.import", "nul.yml", "--name", "small")
    assert "a/b" in call("recipes.show", "small")
    assert "\0" not in (tmp_path / "playbooks/recipes/small.yml").read_text()
