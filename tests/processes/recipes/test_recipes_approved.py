"""Code of others is asked about once: what was approved is remembered until it changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commandline import UNREACHABLE, run_command
from tests.shelf_repository import RECIPE, run_git
from tests.variations import keep_some

Call = Callable[..., str]
UP = ("cluster.up", "--solo", "-i", "hosts.yml", "--recipe")
DIRECT = "theirs/recipes/small.yaml"
ASKED = "not confirmed: third-party code runs as root in the image"
KNOWN = "and unchanged: "
NOBODY = 4  # the exit code where it was approved: nothing answers there


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file with the approvals of this user."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state/sparkfleet/approvals.json"


@pytest.fixture
def call(tmp_path: Path, state: Path) -> Call:
    """Type a task in a project next to which is a clone with a recipe and its mod."""
    mod = tmp_path / "theirs/mods/fix"
    mod.mkdir(parents=True)
    (mod / "run.sh").write_text("echo patched\n")
    (tmp_path / "theirs/recipes").mkdir()
    (tmp_path / "theirs/recipes/small.yaml").write_text(RECIPE)
    (tmp_path / "hosts.yml").write_text(UNREACHABLE)

    def type_it(*words: str, code: int = 0) -> str:
        done = run_command(*words, cwd=tmp_path)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + (done.stderr if code else "")

    return type_it


def test_what_was_approved_is_not_asked_about_again(call: Call, state: Path) -> None:
    assert ASKED in call(*UP, DIRECT, code=5)
    assert not state.exists()
    first = call(*UP, DIRECT, "--yes", code=NOBODY)
    assert "echo patched" in first
    again = call(*UP, DIRECT, code=NOBODY)
    assert f"{KNOWN}theirs/mods/fix; to be asked again, remove {state}" in again
    assert "echo patched" not in again
    assert "echo patched" in call(*UP, DIRECT, "--check", code=NOBODY)
    state.unlink()
    assert ASKED in call(*UP, DIRECT, code=5)


def test_another_byte_of_a_mod_is_asked_about(call: Call, tmp_path: Path) -> None:
    call(*UP, DIRECT, "--yes", code=NOBODY)
    script = tmp_path / "theirs/mods/fix/run.sh"
    script.write_text("echo patched!\n")
    assert "echo patched!" in call(*UP, DIRECT, code=5)
    script.write_text("echo patched\n")
    assert KNOWN in call(*UP, DIRECT, code=NOBODY)
    (script.parent / "more.py").write_text("")
    assert ASKED in call(*UP, DIRECT, code=5)


def test_another_right_is_asked_about(call: Call, tmp_path: Path) -> None:
    call(*UP, DIRECT, "--yes", code=NOBODY)
    (tmp_path / "mine.yml").write_text(f"extends: {DIRECT}\nengine_pip: [scipy]\n")
    text = call(*UP, "mine.yml", code=5)
    assert ASKED in text
    assert "engine_pip: ['scipy']" in text


def test_a_check_approves_nothing(call: Call, state: Path) -> None:
    call(*UP, DIRECT, "--check", "--yes", code=NOBODY)
    assert not state.exists()


def test_another_commit_of_a_shelf_is_asked_about(call: Call, tmp_path: Path, state: Path) -> None:
    folder = tmp_path / "theirs"
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        run_git(folder, *words)
    call("recipes.add", "theirs", "--name", "team")
    call(*UP, "team/small", "--yes", code=NOBODY)
    assert KNOWN in call(*UP, "team/small", code=NOBODY)
    (approval,) = json.loads(state.read_text()).values()
    assert approval["subject"].startswith("team/small: ")
    (folder / "recipes/small.yaml").write_text(RECIPE.replace("4096", "8192"))
    run_git(folder, "commit", "-q", "-a", "-m", "next")
    call("recipes.update", "team", "--yes")
    assert ASKED in call(*UP, "team/small", code=5)


def test_a_link_out_of_a_mod_is_refused(call: Call, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a secret\n")
    (tmp_path / "theirs/mods/fix/data").symlink_to(tmp_path / "secret")
    text = call(*UP, DIRECT, "--yes", code=5)
    assert "theirs/mods/fix/data is a link to a place outside the mod" in text


@pytest.mark.parametrize("content", keep_some(["[1]", "{", '{"a": 1}', ""], 2))
def test_a_damaged_file_of_approvals_approves_nothing(
    call: Call, state: Path, content: str
) -> None:
    state.parent.mkdir(parents=True)
    state.write_text(content)
    assert ASKED in call(*UP, DIRECT, code=5)
    call(*UP, DIRECT, "--yes", code=NOBODY)
    assert KNOWN in call(*UP, DIRECT, code=NOBODY)
