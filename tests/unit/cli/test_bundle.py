"""`doctor --bundle`: everything for a report, and nothing that must not leave its owner."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
import yaml

from sparkfleet.cli.doctor import bundle
from sparkfleet.cli.doctor.bundle import write_bundle
from sparkfleet.cli.options import Options
from sparkfleet.errors import UsageError
from sparkfleet.report.identity_redaction import redact_identity

LOG = "HF_TOKEN=hunter2hunter2\nConnected to 8.8.8.8:443 from 192.168.100.10\n/home/ann/x\n"


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """Return an inventory of this machine, on which a deployment and its events were left."""
    folder = tmp_path / "state" / "default"
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "serve.log").write_text(LOG)
    (folder / "nccl.env").write_text("# vllm_env; a secret\nexport VLLM_API_KEY='hunter2'\n")
    event = {"kind": "stopped", "at": 5.0, "text": "cluster.down stopped the cluster"}
    (folder / "events.jsonl").write_text(json.dumps(event) + "\n")
    variables = {"cluster_dir": str(tmp_path / "state"), "engine": "native"}
    away = {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_user": "ann"}
    hosts = {"here": {"ansible_connection": "local"}, "away": away}
    path = tmp_path / "inventory.yml"
    path.write_text(
        yaml.safe_dump({"sparks": {"hosts": hosts, "vars": variables}}, sort_keys=False)
    )
    return path


def read(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        names = [entry.name for entry in archive.getmembers()]
        return {
            name.removeprefix("sparkfleet-bundle/"): archive.extractfile(name).read().decode()  # type: ignore[union-attr]  # a file
            for name in names
        }


def test_the_bundle_has_logs_facts_files_versions_and_events(
    tmp_path: Path, inventory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    path = tmp_path / "report.tar.gz"
    log = tmp_path / "own.log"
    log.write_text(LOG)
    options = Options(task="doctor", inventory=(str(inventory),), whole_cluster=True)
    assert write_bundle(path, str(log), options) == 0
    files = read(path)
    expected = {
        "CONTENTS.txt",
        "versions.json",
        "run/own.log",
        "hosts/here/facts.json",
        "hosts/here/versions.json",
        "hosts/here/rendered/nccl.env",
        "hosts/here/logs/serve.log",
        "hosts/away/error.txt",
        "events.jsonl",
    }
    assert set(files) == expected
    assert all(name in files["CONTENTS.txt"] for name in expected - {"CONTENTS.txt"})
    everything = "\n".join(files.values())
    assert not any(word in everything for word in ("hunter2", "8.8.8.8", "/home/ann"))
    assert "192.168.100.10" in files["run/own.log"]
    assert json.loads(files["events.jsonl"])["kind"] == "stopped"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_exists_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    path = tmp_path / "report.tar.gz"
    path.write_text("mine")
    with pytest.raises(UsageError, match="exists"):
        write_bundle(path, None, Options(task="doctor"))
    assert path.read_text() == "mine"


def test_a_folder_that_is_missing_is_named_before_hosts_are_asked(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "report.tar.gz"
    options = Options(task="doctor", inventory=("nowhere.yml",))
    with pytest.raises(UsageError, match=r"folder .*missing not found") as caught:
        write_bundle(path, None, options)
    assert caught.value.hint == f"create it: mkdir -p {path.parent}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("connect to 8.8.8.8.", "connect to (public address)."),
        ("http://1.1.1.1:8000/v1", "http://(public address):8000/v1"),
        ("at 2606:4700:4700::1111 up", "at (public address) up"),
        ('"serial": "1424725012345"', '"serial": "(serial)"'),
        ("Serial Number: 14247", "Serial Number: (serial)"),
        ("GPU-12345678-1234-1234-1234-123456789abc", "(uuid)"),
        ("link/ether 4c:bb:47:00:11:22", "link/ether (mac)"),
        ("/home/ann/vllm: ann cannot", "/home/(user)/vllm: (user) cannot"),
    ],
)
def test_identity_is_masked(text: str, expected: str) -> None:
    assert redact_identity(text, ["ann", "", "root"]) == expected


@pytest.mark.parametrize(
    "text",
    [
        "192.168.100.10 10.0.0.1 127.0.0.1 169.254.1.2 fe80::1 ::1",
        "22:10:35 INFO vllm 0.32.0 root",
        "annual channel spanning",
        "rocep1s0f0:1 GID 3",
    ],
)
def test_what_a_fault_needs_stays(text: str) -> None:
    assert redact_identity(text, ["ann", "root"]) == text


def test_a_secret_at_the_cut_of_a_long_log_is_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "MAX_TEXT", 40)
    (tmp_path / "run").mkdir()
    log = "PASSWORD=" + "hunter2" * 20 + "\n"
    (tmp_path / "run" / "here-serve.log").write_text(log)
    write_bundle(tmp_path / "b.tgz", str(tmp_path / "run"), Options(task="doctor"))
    text = read(tmp_path / "b.tgz")["run/here-serve.log"]
    assert "hunter2" not in text
    assert "(secret)" in text
