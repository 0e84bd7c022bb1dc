"""The archive for a head without sparkfleet, and the program that installs it there."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from sparkfleet.cli.cluster.watching.install_on_head import write_overlay
from sparkfleet.errors import UsageError
from sparkfleet.launch.watching.installation_archive import (
    COMPILED,
    pack_bundle,
    read_inventory_files,
)
from sparkfleet.model import Host, Value

KEYS = ("ssh-ed25519 AAAA", "ssh-rsa BBBB")


def list_names(archive: bytes) -> set[str]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        return set(packed.getnames())


def ask(home: Path, request: dict[str, Any], payload: bytes = b"") -> dict[str, Any]:
    """Run the program with a home of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "sparkfleet.onhost.host.install"],
        input=json.dumps(request).encode() + b"\n" + payload,
        stdout=subprocess.PIPE,
        env={**os.environ, "HOME": str(home)},
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_the_archive_runs_without_our_libraries(tmp_path: Path) -> None:
    bundle = pack_bundle(compiled=True)
    folder = tmp_path / "app"
    request = {"do": "unpack", "folder": str(folder), "size": len(bundle.archive)}
    answer = ask(tmp_path, {**request, "sha256": bundle.sha256}, bundle.archive)
    assert answer == {"folder": str(folder)}
    done = subprocess.run(
        [sys.executable, "-S", "-m", "sparkfleet", "recipes.list"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(folder), "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "gemma" in done.stdout


def test_without_compiled_libraries_none_is_in_it() -> None:
    bundle = pack_bundle(compiled=False)
    assert bundle == pack_bundle(compiled=False)
    names = list_names(bundle.archive)
    assert not [name for name in names if ".so" in name]
    assert not bundle.libraries.keys() & COMPILED.keys()
    assert {"sparkfleet/__main__.py", "paramiko/__init__.py", "yaml/__init__.py"} <= names
    assert "sparkfleet/_data/playbooks/cluster-up.yml" in names


def test_an_archive_of_another_hash_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    request = {"do": "unpack", "folder": str(tmp_path / "app"), "size": 3, "sha256": "0" * 64}
    assert "a wrong hash" in ask(tmp_path, request, b"abc")["error"]
    assert list(tmp_path.iterdir()) == []


def test_an_archive_that_leads_out_of_its_folder_is_refused(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("../out"), io.BytesIO())
    data = packed.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    folder = tmp_path / "a" / "app"
    request = {"do": "unpack", "folder": str(folder), "size": len(data), "sha256": digest}
    assert "out" in ask(tmp_path, request, data)["error"]
    assert not folder.exists()
    assert not (tmp_path / "a" / "out").exists()


def test_files_replace_those_of_before_and_are_private(tmp_path: Path) -> None:
    for files in ({"a.yml": "one", "group_vars/all.yml": "x"}, {"b.yml": "two"}):
        ask(tmp_path, {"do": "write", "folder": "~/watch", "files": files})
    (left,) = (tmp_path / "watch").iterdir()
    assert (left.name, left.read_text(), left.stat().st_mode & 0o777) == ("b.yml", "two", 0o600)


def test_folders_on_the_head_are_private_whatever_the_umask(tmp_path: Path) -> None:
    """Another user who could write above the package would choose what this user runs."""
    before = os.umask(0)
    try:
        ask(tmp_path, {"do": "write", "folder": "~/.local/share/x/w", "files": {"d/a.yml": "1"}})
    finally:
        os.umask(before)
    made = [path for path in (tmp_path / ".local").rglob("*") if path.is_dir()]
    assert len(made) == 4
    assert not [path for path in (tmp_path / ".local", *made) if path.stat().st_mode & 0o077]


def test_a_file_that_leads_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    request = {"do": "write", "folder": "~/x/w", "files": {"../../.ssh/authorized_keys": "1"}}
    assert "not a path below" in ask(tmp_path, request)["error"]
    assert not (tmp_path / ".ssh").exists()


def test_only_files_that_an_inventory_reads_are_copied(tmp_path: Path) -> None:
    folder = tmp_path / "group_vars" / "all"
    folder.mkdir(parents=True)
    (tmp_path / "hosts.yml").write_text("all: {}\n")
    (folder / "a.yml").write_text("x: 1\n")
    (folder / ".a.yml.swp").write_bytes(b"\xff\xfe")
    (folder / "a.yml~").write_text("old secret")
    (folder / "id_ed25519.bak").write_text("key")
    files = dict(read_inventory_files((str(tmp_path / "hosts.yml"),)))
    assert files == {"hosts.yml": "all: {}\n", "group_vars/all/a.yml": "x: 1\n"}
    (folder / "b.yml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"b\.yml cannot be copied to the head: it is not text"):
        dict(read_inventory_files((str(tmp_path / "hosts.yml"),)))


def test_keys_are_made_once_and_lines_added_once(tmp_path: Path) -> None:
    first = ask(tmp_path, {"do": "key"})
    assert (first["made"], first["key"].split()[0]) == (True, "ssh-ed25519")
    assert ask(tmp_path, {"do": "key"}) == {"key": first["key"], "made": False}
    known = tmp_path / ".ssh" / "known_hosts"
    known.write_text("ours")
    lines = [f"10.0.0.2 {key}" for key in KEYS]
    assert ask(tmp_path, {"do": "trust", "lines": lines}) == {"added": 2}
    assert ask(tmp_path, {"do": "trust", "lines": lines}) == {"added": 0}
    assert known.read_text().splitlines() == ["ours", *lines]
    assert ask(tmp_path, {"do": "authorize", "line": first["key"]}) == {"added": 1}


def test_what_python_lacks_is_named(tmp_path: Path) -> None:
    answer = ask(tmp_path, {"do": "probe", "modules": ["json", "no_such_module"]})
    assert answer["missing"] == ["no_such_module"]
    assert answer["version"] == list(sys.version_info[:2])
    assert answer["home"] == str(tmp_path)


@pytest.mark.parametrize("recipe", ["file", "name"])
def test_the_head_is_local_there_and_files_of_this_machine_are_not(
    tmp_path: Path, recipe: str
) -> None:
    path = tmp_path / "mine.yml"
    path.write_text("description: mine\n")
    named = str(path) if recipe == "file" else "mine"
    common = {"vllm_recipe": Value(data=named)}
    key = {"ansible_ssh_private_key_file": Value(data="/home/ann/key")}
    head = Host(name="a", vars=common)
    text = write_overlay(head, (head, Host(name="b", vars={**common, **key})))
    hosts = yaml.safe_load(text)["all"]["hosts"]
    assert hosts["a"]["ansible_connection"] == "local"
    assert hosts["b"]["ansible_ssh_private_key_file"] is None
    assert [host.get("vllm_recipe") for host in hosts.values()] == (
        ["mine", "mine"] if recipe == "file" else [None, None]
    )
