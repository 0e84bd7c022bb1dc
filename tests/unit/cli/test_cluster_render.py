"""`cluster.render`: files for reading and running by hand, and nothing written on a host."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkfleet.cli.cluster.output_folder import RECORD, check_output_folder, write_output_files
from sparkfleet.errors import UsageError
from sparkfleet.weights import hub
from sparkfleet.weights.manifest import Manifest, ModelFile
from tests.budget import scale_examples
from tests.commandline import run_command
from tests.weights import COMMIT

INVENTORY = """\
sparks:
  hosts:
    here:
      ansible_connection: local
  vars:
    engine: native
    engine_venv: ~/vllm-env
    weights_dir: {folder}/weights
"""
RECIPE = """\
description: a test
source: none
vllm_model: tiny
weights_source: {folder}/model
vllm_args: {{max-model-len: 256}}
vllm_env: {{VLLM_API_KEY: "{{{{ lookup('env', 'VLLM_API_KEY') }}}}"}}
"""

Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Render a model of a folder for this machine."""
    (tmp_path / "inventory.yml").write_text(INVENTORY.format(folder=tmp_path))
    (tmp_path / "own.yml").write_text(RECIPE.format(folder=tmp_path))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "model" / "model.safetensors").write_bytes(b"\x02" + 7 * b"\0" + b"{}")
    monkeypatch.setenv("VLLM_API_KEY", "key of a test")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def type_it(*words: str) -> subprocess.CompletedProcess[str]:
        task = ["cluster.render", "--inventory", "inventory.yml", "--recipe", "own.yml", "--solo"]
        return run_command(*task, *words, cwd=tmp_path)

    return type_it


def test_every_file_is_written_here_and_none_on_the_host(call: Call, tmp_path: Path) -> None:
    done = call("--out", "out")
    assert done.returncode == 0, done.stderr
    serve = (tmp_path / "out" / "here" / "vllm-serve.sh").read_text()
    assert f"vllm serve {tmp_path}/weights/tiny" in serve
    assert "--max-model-len 256" in serve
    assert f"install in {tmp_path}/weights/.sparkfleet/default/ on here" in done.stdout
    assert "no deployment is running" in done.stdout
    assert not (tmp_path / "weights").exists()
    subprocess.run(["shellcheck", tmp_path / "out" / "here" / "vllm-serve.sh"], check=True)


def test_a_draft_of_the_hub_is_named_by_its_folder_of_the_pinned_commit(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = (ModelFile(path="model.safetensors", size=10, sha256="a" * 64),)
    hub.cache_manifest(Manifest(name="org/draft", files=files, commit=COMMIT, revision=COMMIT))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    drafts = f"weights_drafts=[org/draft@{COMMIT}]"
    args = "vllm_args={speculative-config: {model: org/draft}}"
    done = call("--out", "out", "--set", drafts, "--set", args)
    assert done.returncode == 0, done.stderr
    folder = f"{tmp_path}/weights/hub/models--org--draft/snapshots/{COMMIT}"
    serve = (tmp_path / "out" / "here" / "vllm-serve.sh").read_text()
    assert f'--speculative-config \'{{"model":"{folder}"}}\'' in serve


def test_a_key_is_readable_by_its_owner_only(call: Call, tmp_path: Path) -> None:
    done = call("--out", "out")
    environment = tmp_path / "out" / "here" / "nccl.env"
    assert "VLLM_API_KEY='key of a test'" in environment.read_text()
    assert "key of a test" not in done.stdout + done.stderr
    assert environment.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700


def test_a_second_render_replaces_the_first_and_nothing_else(call: Call, tmp_path: Path) -> None:
    assert call("--out", "out").returncode == 0
    again = call("--out", "out", "--set", "vllm_port=8001")
    assert again.returncode == 0, again.stderr
    assert "--port=8001" in (tmp_path / "out" / "here" / "vllm-serve.sh").read_text()
    (tmp_path / "out" / "here" / "notes.txt").write_text("mine")
    refused = call("--out", "out")
    assert refused.returncode == 5
    assert "out holds files that sparkfleet did not write: here/notes.txt" in refused.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "--out is missing"),
        (["--out", "own.yml"], "own.yml is not a folder"),
        (["--out", "model"], "files that sparkfleet did not write: config.json, model.safetensors"),
        (["--out", "out", "--tp", "2"], "--solo cannot be combined with --tp"),
    ],
)
def test_what_cannot_be_written_is_refused_before_a_host_is_asked(
    call: Call, words: list[str], expected: str
) -> None:
    done = call(*words)
    assert done.returncode == 5
    assert expected in done.stderr


def test_obsolete_files_are_removed_and_broken_records_are_reported(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write_output_files(folder, {"a": {"x.sh": "1", "y": "2"}}, check_output_folder(folder))
    write_output_files(folder, {"a": {"x.sh": "3"}}, check_output_folder(folder))
    assert sorted(path.name for path in folder.rglob("*") if path.is_file()) == [RECORD, "x.sh"]
    assert (folder / "a" / "x.sh").stat().st_mode & 0o777 == 0o700
    (folder / RECORD).write_text("{")
    with pytest.raises(UsageError, match="cannot be read"):
        check_output_folder(folder)


def tree(folder: Path) -> dict[str, str]:
    """Return every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_record_that_names_a_file_elsewhere_deletes_nothing(call: Call, tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "id").write_text("kept")
    (tmp_path / "rendered").mkdir()
    (tmp_path / "rendered" / RECORD).write_text('{"files": ["../victim/id"]}')
    before = tree(tmp_path)
    done = call("--out", "rendered")
    assert done.returncode == 5
    said = " ".join(done.stderr.split())
    assert f"rendered/{RECORD} names a file outside its folder: '../victim/id'" in said
    assert "nothing was deleted" in said
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    "name",
    ["../x", "/etc/passwd", "a/../../x", "", ".", "a//b", "a/\x00", 1, None, ["a"], "\ud800"],
)
def test_names_in_a_record_are_files_below_its_folder(tmp_path: Path, name: object) -> None:
    (tmp_path / RECORD).write_text(json.dumps({"files": ["a/x.sh", name]}))
    with pytest.raises(UsageError, match="names a file outside its folder") as caught:
        check_output_folder(tmp_path)
    assert caught.value.hint


def test_a_record_that_names_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / RECORD).write_text('{"files": ["a"]}')
    with pytest.raises(UsageError, match="names a folder as a file: 'a'; nothing was deleted"):
        check_output_folder(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[1]", "null", '"x"', "{}", '{"files": 1}', '{"files": "abc"}', '{"files": {}}'),
        *("[" * 100_000, "\udcff", '{"files": ["' + "x/" * 2000 + '"]}'),
    ],
)
def test_a_record_of_another_shape_is_reported(tmp_path: Path, text: str) -> None:
    (tmp_path / RECORD).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(
        UsageError, match=r"\.sparkfleet\.json (cannot be read|names a file outside)"
    ):
        check_output_folder(tmp_path)


def test_a_record_that_is_not_a_file_is_reported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / RECORD)
    with pytest.raises(UsageError, match="is not a file"):
        check_output_folder(tmp_path)


@pytest.mark.parametrize("linked", ["a", "a/x.sh", "a/b", RECORD])
def test_links_are_neither_followed_nor_deleted_through(tmp_path: Path, linked: str) -> None:
    folder, victim = tmp_path / "out", tmp_path / "victim"
    write_output_files(folder, {"a": {"x.sh": "1", "b/y": "2"}}, check_output_folder(folder))
    (folder / linked).rename(victim)
    (folder / linked).symlink_to(victim)
    before = tree(tmp_path)
    with pytest.raises(UsageError, match=r"is a link|holds files that sparkfleet did not write"):
        check_output_folder(folder)
    for wanted in ({"a": {"x.sh": "3", "b/y": "4"}}, {}):
        with pytest.raises(UsageError, match="is a link; nothing was written or deleted"):
            write_output_files(folder, wanted, frozenset({"a/x.sh", "a/b/y"}))
    assert tree(tmp_path) == before


def test_a_folder_of_a_host_that_is_a_link_is_not_written_through(
    call: Call, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "here").symlink_to(tmp_path / "elsewhere")
    done = call("--out", "out")
    assert done.returncode == 5
    assert "out holds files that sparkfleet did not write: here" in done.stderr
    (tmp_path / "out" / RECORD).write_text('{"files": ["here/nccl.env"]}')
    done = call("--out", "out")
    assert done.returncode == 5
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("host", ["..", "../x", "/x", "", ".", "a\nb"])
def test_a_host_gets_a_folder_below(tmp_path: Path, host: str) -> None:
    with pytest.raises(UsageError, match="not a name of a file below"):
        write_output_files(tmp_path / "out", {host: {"x": "1"}}, frozenset())
    assert list(tmp_path.iterdir()) == []


PIECES = st.sampled_from(["..", ".", "", "link", "a", "x", "~", "\0", "\ud800", "y" * 256])


@settings(
    max_examples=scale_examples(20),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.lists(PIECES, max_size=4).map("/".join), max_size=3))
def test_a_record_never_leads_to_changes_outside_the_folder(
    tmp_path: Path, names: list[str]
) -> None:
    folder, victim = tmp_path / "out", tmp_path / "x"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "a").mkdir(parents=True)
    victim.mkdir(exist_ok=True)
    (victim / "x").write_text("kept")
    (folder / "link").symlink_to(victim)
    (folder / RECORD).write_text(json.dumps({"files": names}))
    for known in (None, frozenset(names)):
        with contextlib.suppress(UsageError):
            write_output_files(
                folder, {"a": {"x": "1"}}, check_output_folder(folder) if known is None else known
            )
    assert (victim / "x").read_text() == "kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "x"]
