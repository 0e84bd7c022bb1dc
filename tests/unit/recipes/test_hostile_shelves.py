"""Shelves and their records that came from others: refused with a place, never a bug."""

from __future__ import annotations

import json
import os
import resource
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.errors import RecipeError
from sparkfleet.recipes.shelves import snapshot as snapshots
from sparkfleet.recipes.shelves.record import FOLDER, list_shelves, load_shelf
from sparkfleet.recipes.shelves.snapshot import Snapshot, take_snapshot
from sparkfleet.recipes.shelves.store import index_snapshot

ODD: tuple[Any, ...] = (5, None, [], [1], True)
RECIPE = b"vllm_model: org/model\n"
RECORD: dict[str, Any] = {
    "name": "x",
    "source": "https://example.com/x.git",
    "commit": "0" * 40,
    "revision": "",
    "recipes": {"a": "a.yml"},
}


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty project, which is the current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _write_record(text: str) -> Path:
    folder = Path(FOLDER) / "x"
    (folder / "files").mkdir(parents=True)
    (folder / "files" / "a.yml").write_bytes(RECIPE)
    (folder / "shelf.json").write_text(text)
    return folder


def test_a_record_is_read() -> None:
    _write_record(json.dumps(RECORD))
    assert [shelf.name for shelf in list_shelves()] == ["x"]


@pytest.mark.parametrize(
    "changed",
    [
        *({"commit": value} for value in ODD),
        *({"source": value} for value in ODD),
        *({"recipes": value} for value in (*ODD, "a", {"a": 5}, {"a": None})),
        *({"recipes": {"a": path}} for path in ("../x.yml", "/etc/passwd", "", "a//b", "a\nb")),
        {"revision": 5},
    ],
    ids=str,
)
def test_a_record_of_another_shape_is_named(changed: dict[str, Any]) -> None:
    _write_record(json.dumps({**RECORD, **changed}))
    with pytest.raises(RecipeError, match="is not the record of a shelf") as caught:
        load_shelf("x")
    assert "remove the folder playbooks/shelves/x" in str(caught.value.problems[0].hint)


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", "5", "", "{}", '{"source": "a"}'])
def test_a_record_that_is_none_is_named(text: str) -> None:
    _write_record(text)
    with pytest.raises(RecipeError, match="is not the record of a shelf"):
        load_shelf("x")


@pytest.mark.parametrize("linked", ["shelf.json", "files", "", ".."])
def test_a_shelf_behind_a_link_is_refused(project: Path, linked: str) -> None:
    path = Path(os.path.normpath(_write_record(json.dumps(RECORD)) / linked))
    path.rename(project / "elsewhere")
    path.symlink_to(project / "elsewhere")
    with pytest.raises(RecipeError, match="is a symbolic link"):
        load_shelf("x")


@pytest.mark.parametrize(
    "name", [b"a\nb.yml", b"a\x1b[2J.yml", b"\xff.yml", "a\u202eb.yml".encode()]
)
def test_a_name_that_no_shelf_takes_is_refused(tmp_path: Path, name: bytes) -> None:
    source = tmp_path / "source"
    source.mkdir()
    Path(os.fsdecode(bytes(source) + b"/" + name)).write_bytes(RECIPE)
    with pytest.raises(RecipeError, match="has a file whose name is not allowed") as caught:
        take_snapshot(str(source))
    assert caught.value.message.isprintable()


def test_large_files_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    with (source / "large.yml").open("wb") as file:
        file.truncate(1 << 40)  # a sparse file: reading it would end the memory
    with pytest.raises(RecipeError, match="is larger than 2 MB"):
        take_snapshot(str(source))
    (source / "large.yml").write_bytes(RECIPE)
    monkeypatch.setattr(snapshots, "MAX_TOTAL", len(RECIPE) - 1)
    with pytest.raises(RecipeError, match="recipes and mods have more than"):
        take_snapshot(str(source))


def _git(folder: Path, *words: str) -> None:
    named = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", "-C", str(folder), *named, *words], check=True, capture_output=True)


def _make_repository(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir()
    _git(folder, "init", "--quiet")
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "link.yml").symlink_to("/etc/passwd")
    _git(folder, "add", "--all")
    _git(folder, "commit", "--quiet", "--message=x")
    return folder


def test_files_of_a_repository_are_those_of_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its attributes nor the variables of a hook of git change what is read."""
    stamped = RECIPE + b"# $Format:%H$\n"
    attributes = b"b.yml export-subst\na.yml export-ignore\n"
    files = {"a.yml": RECIPE, "b.yml": stamped, "c.yml": b"", ".gitattributes": attributes}
    source = _make_repository(tmp_path / "source", files)
    other = _make_repository(tmp_path / "other", {"evil.yml": RECIPE})
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    taken = take_snapshot(str(source)).files
    assert taken == {"a.yml": RECIPE, "b.yml": stamped, "c.yml": b""}


def test_a_large_file_of_a_repository_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git packs zeros a thousand times smaller; an archive of a commit would be all of them."""
    zeros = b"\0" * (8 << 20)
    source = _make_repository(tmp_path / "source", {"a.yml": RECIPE, "zeros.bin": zeros})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        assert take_snapshot(str(source)).files == {"a.yml": RECIPE}
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    monkeypatch.setattr(snapshots, "MAX_BYTES", len(RECIPE) - 1)
    with pytest.raises(RecipeError, match="is larger than"):
        take_snapshot(str(source))


@pytest.mark.parametrize(
    "files",
    [{"a.yml": RECIPE, "a.yml/run.sh": b""}, {"a" * 300 + ".yml": RECIPE}],
    ids=["a file and a folder", "too long"],
)
def test_files_that_no_folder_can_hold_are_named(files: dict[str, bytes]) -> None:
    with pytest.raises(RecipeError, match="cannot be written"):
        index_snapshot(Snapshot(commit="", files=files))
