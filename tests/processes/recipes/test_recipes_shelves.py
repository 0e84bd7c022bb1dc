"""Shelves: recipes of a git repository or a folder, pinned in the project."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkfleet.recipes.shelves.snapshot import take_snapshot
from tests.commandline import UNREACHABLE, run_command
from tests.shelf_repository import RECIPE, run_git
from tests.variations import keep_some

Call = Callable[..., str]
OWN = "description: A team's own\nvllm_model: org/Own\nengine_mods: [mods/fix]\n"


@pytest.fixture
def call(tmp_path: Path) -> Call:
    """Type a task in the folder of a project and return what it prints."""
    project = tmp_path / "project"
    project.mkdir()

    def type_it(*words: str, code: int = 0) -> str:
        done = run_command(*words, cwd=project)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + (done.stderr if code else "")

    return type_it


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Write a work tree with recipes and a mod, and a bare repository `team.git` next to it."""
    folder = tmp_path / "work"
    (folder / "recipes").mkdir(parents=True)
    (folder / "recipes" / "small.yaml").write_text(RECIPE)
    (folder / "recipes" / "own.yml").write_text(OWN)
    (folder / "recipes" / "bad.yaml").write_text(RECIPE.replace("name: small\n", ""))
    (folder / "recipes" / "link.yaml").symlink_to("/etc/hostname")
    (folder / "mods" / "fix").mkdir(parents=True)
    (folder / "mods" / "fix" / "run.sh").write_text("echo patched\n")
    (folder / "README.md").write_text("not taken\n")
    run_git(tmp_path, "init", "-q", "-b", "main", str(folder))
    run_git(folder, "add", ".")
    run_git(folder, "commit", "-q", "-m", "first")
    run_git(tmp_path, "clone", "-q", "--bare", str(folder), "team.git")
    run_git(folder, "remote", "add", "origin", str(tmp_path / "team.git"))
    return folder


def _publish(work: Path, text: str) -> str:
    (work / "recipes" / "small.yaml").write_text(text)
    run_git(work, "commit", "-q", "-a", "-m", "next")
    run_git(work, "push", "-q", "origin", "main")
    return run_git(work, "rev-parse", "HEAD")


def test_a_shelf_is_listed_with_its_name_as_prefix(call: Call, work: Path) -> None:
    commit = run_git(work, "rev-parse", "HEAD")
    text = call("recipes.add", "../team.git")
    assert f"added: shelf team at {commit[:12]} of ../team.git, 2 recipes" in text
    assert "not usable: recipes/bad.yaml:1:1: missing name" in text
    assert "  mods/fix" in text
    listed = call("recipes.list", "--search", "team/")
    assert "team/small" in listed
    assert "team/own" in listed
    document = json.loads(call("recipes.list", "--search", "team/small", "--output", "json"))
    assert document["recipes"][0]["shelf"] == f"shelf team at {commit[:12]} of ../team.git"


def test_a_shelf_holds_recipes_and_mods_and_no_links(
    call: Call, work: Path, tmp_path: Path
) -> None:
    call("recipes.add", "../team.git")
    files = tmp_path / "project/playbooks/shelves/team/files"
    found = sorted(str(path.relative_to(files)) for path in files.rglob("*") if path.is_file())
    assert found == ["mods/fix/run.sh", "recipes/bad.yaml", "recipes/own.yml", "recipes/small.yaml"]


def test_a_recipe_of_a_shelf_says_so(call: Call, work: Path, tmp_path: Path) -> None:
    commit = run_git(work, "rev-parse", "HEAD")[:12]
    call("recipes.add", "../team.git")
    text = " ".join(call("recipes.show", "team/own").split())
    assert f"shelf team at {commit} of ../team.git" in text
    assert 'engine_mods: ["playbooks/shelves/team/files/mods/fix"]' in text
    assert "--recipe team/own" in text
    (tmp_path / "project" / "hosts.yml").write_text(UNREACHABLE)
    words = ["cluster.up", "--solo", "-i", "hosts.yml", "--recipe", "team/small"]
    text = call(*words, "--check", code=4)  # nothing answers there
    assert f"from shelf team at {commit} of ../team.git" in text
    assert "echo patched" in text


SPARKRUN = """\
recipe_version: "2"
model: org/Small
runtime: vllm
container: vllm/vllm-openai:v0.28.0
mods: [%s]
defaults: {max_model_len: 4096}
command: |
  vllm serve {model} --max-model-len {max_model_len}
"""


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Write a registry with a recipe and without mods."""
    folder = tmp_path / "other"
    (folder / "recipes").mkdir(parents=True)
    return folder / "recipes" / "far.yaml"


@pytest.mark.parametrize(
    "named", keep_some(["'@eugr/fix'", "'@eugr/mods/fix'", "fix", "mods/fix"], 2)
)
def test_a_mod_of_another_registry_is_taken_from_its_shelf(
    call: Call, work: Path, other: Path, tmp_path: Path, named: str
) -> None:
    other.write_text(SPARKRUN % named)
    call("recipes.add", "../team.git", "--name", "eugr")
    call("recipes.add", "../other")
    mod = "playbooks/shelves/eugr/files/mods/fix"
    text = " ".join(call("recipes.show", "other/far").split())
    assert f'engine_mods: ["{mod}"]' in text
    commit = run_git(work, "rev-parse", "HEAD")[:12]
    assert f"shelf eugr at {commit}" in text
    (tmp_path / "project" / "hosts.yml").write_text(UNREACHABLE)
    words = ["cluster.up", "--solo", "-i", "hosts.yml", "--recipe", "other/far"]
    refused = f"not confirmed: third-party code runs as root in the image: {mod}"
    assert refused in call(*words, code=5)
    call("recipes.import", "../other/recipes/far.yaml", "--yes")
    copy = tmp_path / "project/playbooks/recipes/mods/far/fix/run.sh"
    assert copy.read_text() == "echo patched\n"


def test_a_mod_of_an_unknown_registry_says_how_to_get_it(
    call: Call, work: Path, other: Path
) -> None:
    other.write_text(SPARKRUN % "'@sparks/fix'")
    call("recipes.add", "../team.git")
    text = call("recipes.import", "../other/recipes/far.yaml", "--yes", code=5)
    assert "far.yaml:5:8: the mod @sparks/fix was not found" in text
    assert "sparkfleet recipes.add SOURCE --name sparks" in text


def test_a_registry_of_a_mod_is_preferred_to_a_neighbour(
    call: Call, work: Path, other: Path, tmp_path: Path
) -> None:
    other.write_text(SPARKRUN % "'@team/fix'")
    near = other.parent.parent / "mods" / "fix"
    near.mkdir(parents=True)
    (near / "run.sh").write_text("echo near\n")
    call("recipes.add", "../team.git")
    text = " ".join(call("recipes.show", "../other/recipes/far.yaml").split())
    assert 'engine_mods: ["playbooks/shelves/team/files/mods/fix"]' in text


def test_code_of_a_shelf_is_not_started_without_a_yes(
    call: Call, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = "vllm_env: {KEY: \"{{ lookup('env', 'SECRET') }}\"}\n"
    (work / "recipes" / "own.yml").write_text(OWN + "engine_args: [--privileged]\n" + environment)
    _publish(work, RECIPE)
    call("recipes.add", "../team.git")
    (tmp_path / "project" / "hosts.yml").write_text(UNREACHABLE)
    monkeypatch.setenv("SECRET", "a value")
    text = call("cluster.up", "--solo", "-i", "hosts.yml", "--recipe", "team/own", code=5)
    assert "echo patched" in text
    assert "not confirmed: third-party code runs as root in the image" in text
    assert "engine_args: ['--privileged']" in text
    assert "lookup('env', 'SECRET')" in text


def test_a_shelf_stays_at_its_commit_until_it_is_updated(call: Call, work: Path) -> None:
    call("recipes.add", "../team.git")
    commit = _publish(work, RECIPE.replace("4096", "8192"))
    assert "--max-model-len: 4096" in call("recipes.show", "team/small")
    text = call("recipes.update", "team", "--check")
    assert "-defaults: {port: 8000, max_model_len: 4096}" in text
    assert "+defaults: {port: 8000, max_model_len: 8192}" in text
    assert "--max-model-len: 4096" in call("recipes.show", "team/small")
    text = call("recipes.update", "team", code=5)
    assert "not confirmed: 1 file of shelf team changed" in text
    assert "--max-model-len: 4096" in call("recipes.show", "team/small")
    call("recipes.update", "team", "--yes")
    text = call("recipes.show", "team/small")
    assert "--max-model-len: 8192" in text
    assert commit[:12] in text
    assert "nothing changed" in call("recipes.update", "team")


def test_a_revision_pins_a_shelf(call: Call, work: Path) -> None:
    first = run_git(work, "rev-parse", "HEAD")
    _publish(work, RECIPE.replace("4096", "8192"))
    call("recipes.add", "../team.git", "--name", "old", "--revision", first)
    assert "--max-model-len: 4096" in call("recipes.show", "old/small")
    text = call("recipes.add", "../team.git", "--revision", "none", code=5)
    assert "revision 'none' not found" in text


def test_a_shelf_needs_its_source_only_for_an_update(
    call: Call, work: Path, tmp_path: Path
) -> None:
    call("recipes.add", "../team.git")
    (tmp_path / "team.git").rename(tmp_path / "elsewhere.git")
    assert "org/Small" in call("recipes.show", "team/small")
    text = call("recipes.update", "team", code=5)
    assert "git: " in text
    assert "shelf team stays at" in text


def test_a_shelf_is_removed_by_name(call: Call, work: Path, tmp_path: Path) -> None:
    call("recipes.add", "../team.git")
    assert "removed: shelf team" in call("recipes.remove", "team")
    assert not (tmp_path / "project/playbooks/shelves/team").exists()
    assert "shelf 'team' not found" in call("recipes.remove", "team", code=5)


def test_a_folder_is_a_shelf_too(call: Call, work: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    (plain / "a").mkdir(parents=True)
    (plain / "b").mkdir()
    for name in ("a", "b"):
        (plain / name / "same.yaml").write_text(RECIPE.replace("mods: [mods/fix]\n", ""))
    call("recipes.add", "../plain")
    assert "org/Small" in call("recipes.show", "plain/a/same")
    commit = take_snapshot(str(plain)).commit
    (plain / "a" / "same.yaml").write_text(RECIPE)
    assert take_snapshot(str(plain)).commit != commit
    assert "a folder" not in call("recipes.update", "plain", "--check")


def test_no_hook_and_no_command_of_a_source_is_run(
    call: Call, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "mark"
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "post-checkout").write_text(f"#!/bin/sh\ntouch {mark}\n")
    (hooks / "post-checkout").chmod(0o755)
    config = tmp_path / "gitconfig"
    config.write_text(f"[core]\n\thooksPath = {hooks}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    take_snapshot(str(tmp_path / "team.git"))
    text = call("recipes.add", f"ext::sh -c touch% {mark}", "--name", "bad", code=5)
    assert "git: " in text
    assert "--upload-pack" not in call("recipes.add", "--name", "x", "../none", code=5)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["recipes.add", "../none"], "git: fatal: "),
        (["recipes.add", "../team.git/HEAD"], "is a file, and not a repository or a folder"),
        (["recipes.add", "../empty"], "../empty has no recipes"),
        (["recipes.add", "../team.git", "--name", "a/b"], "'a/b' is not a valid name for a shelf"),
        (["recipes.add", "../empty", "--revision", "main"], "is not a git repository"),
        (["recipes.update", "none"], "shelf 'none' not found"),
    ],
)
def test_a_wrong_call_is_refused(
    call: Call, work: Path, tmp_path: Path, words: list[str], part: str
) -> None:
    (tmp_path / "empty").mkdir()
    assert part in call(*words, code=5)


def test_a_name_is_added_once(call: Call, work: Path) -> None:
    call("recipes.add", "../team.git")
    assert "shelf team already exists" in call("recipes.add", "../team.git", code=5)


def test_a_damaged_record_cannot_lead_out_of_its_shelf(
    call: Call, work: Path, tmp_path: Path
) -> None:
    call("recipes.add", "../team.git")
    record = tmp_path / "project/playbooks/shelves/team/shelf.json"
    content = json.loads(record.read_text())
    content["recipes"]["small"] = f"../../../../{work.name}/recipes/small.yaml"
    record.write_text(json.dumps(content))
    text = call("recipes.show", "team/small", code=5)
    assert "shelf.json: the file is not the record of a shelf" in text
    assert os.fspath(tmp_path) not in text
