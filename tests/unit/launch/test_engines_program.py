"""The program that looks at containers, with an engine that answers wrongly, late or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.errors import CommandError
from sparkfleet.model import Host
from sparkfleet.remote.local import LocalConnection

DENIED = (
    "permission denied while trying to connect to the docker API at unix:///var/run/docker.sock"
)


def _engine(folder: Path, script: str) -> str:
    """Make a stand-in for `docker` and return its path."""
    path = folder / "docker"
    path.write_text(f"#!/bin/bash\n{script}\n")
    path.chmod(0o755)
    return str(path)


def _ask(root: Path, deed: str, cli: str, **more: Any) -> dict[str, Any]:
    request = {"do": deed, "cli": cli, "cluster_dir": str(root), "cluster": "t", "grace": 0}
    look = {"files": ["nccl.env"], "image": "vllm:1", "pip": [], "cache": str(root), **more}
    return LocalConnection(Host(name="here")).run_program(
        "deployment/containers", {**request, **look}
    )


def test_a_missing_engine_is_reported(tmp_path: Path) -> None:
    found = _ask(tmp_path, "survey", "no-such-engine")
    assert found["daemon"] == {"error": "no-such-engine is not installed"}
    assert (found["containers"], found["processes"]) == ([], [])


def test_a_user_outside_the_group_is_reported_in_the_engines_own_words(tmp_path: Path) -> None:
    cli = _engine(tmp_path, f"echo '{DENIED}' >&2; exit 1")
    assert DENIED in _ask(tmp_path, "survey", cli)["daemon"]["error"]


def test_an_engine_whose_daemon_answers_with_errors_is_reported(tmp_path: Path) -> None:
    cli = _engine(tmp_path, "echo '" + json.dumps({"ServerErrors": ["Cannot connect"]}) + "'")
    assert "Cannot connect" in _ask(tmp_path, "survey", cli)["daemon"]["error"]


def test_what_cannot_be_asked_is_never_taken_for_stopped(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="permission denied"):
        _ask(tmp_path, "stop", _engine(tmp_path, f"echo '{DENIED}' >&2; exit 1"))


def test_a_container_that_cannot_be_removed_is_an_error(tmp_path: Path) -> None:
    one = json.dumps(
        [
            {
                "Id": "c1",
                "Name": "/x",
                "State": {"Status": "dead", "Pid": 0},
                "Config": {"Labels": {}},
            }
        ]
    )
    script = f"case $1 in ps) echo c1 ;; container) echo '{one}' ;; rm) exit 1 ;; esac"
    with pytest.raises(CommandError, match="cannot be removed: c1"):
        _ask(tmp_path, "stop", _engine(tmp_path, script), removal=0.2)


def test_a_container_that_vanishes_during_the_survey_is_not_an_error(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    script = f"""case $1 in
ps) [ -e {gone} ] || echo c1 ;;
container) touch {gone}; echo 'Error: No such container: c1' >&2; exit 1 ;;
esac"""
    assert _ask(tmp_path, "stop", _engine(tmp_path, script)) == {"stopped": []}


def test_files_of_mods_are_part_of_the_survey(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    (folder / "mods/01-a").mkdir(parents=True)
    (folder / "mods/01-a/run.sh").write_text("true\n")
    found = _ask(tmp_path, "survey", "no-such-engine")["files"]
    assert found == {"nccl.env": None, "mods/01-a/run.sh": "true\n"}
