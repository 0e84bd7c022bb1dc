"""Files on a host that are links, pipes or devices: nothing waits for them or follows them."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.lab.host.build import find_caller_ids
from sparkfleet.onhost.deployment import events, health, lock, log, start_watch
from sparkfleet.onhost.shared.paths import locate_cluster_folder
from sparkfleet.onhost.shared.reading import read_optional_text
from tests.bounded import call_bounded


def _link_to_zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _link_to_secret(path: Path) -> None:
    (path.parent / "secret").write_text("hunter2")
    path.symlink_to(path.parent / "secret")


@pytest.fixture(params=[os.mkfifo, os.mkdir, _link_to_zero, _link_to_secret])
def odd(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a path that is not a regular file."""
    path = tmp_path / "serve.log"
    request.param(path)
    return path


def test_a_log_that_is_not_a_file_is_left_out(odd: Path) -> None:
    assert call_bounded(lambda: log.read_last_lines(odd, 5)) is None
    assert call_bounded(lambda: health.read_log_end(odd))["lines"] == []
    assert call_bounded(start_watch.LogFollower(odd).read_new_lines) == []


def test_a_log_of_events_that_is_not_a_file_is_an_error(odd: Path) -> None:
    def read() -> str | OSError:
        try:
            return events.read_end(odd, 100)
        except OSError as error:
            return error

    assert isinstance(call_bounded(read), OSError)


@pytest.mark.parametrize("make", [os.mkfifo, _link_to_zero])
def test_a_record_that_is_not_a_file_counts_as_none(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    make(tmp_path / "deployment.json")
    assert call_bounded(lambda: read_optional_text(tmp_path / "deployment.json")) is None


@pytest.mark.parametrize("name", ["lock", "lock-last"])
def test_a_link_in_the_place_of_the_lock_is_not_written_through(name: str, tmp_path: Path) -> None:
    keys = tmp_path / "authorized_keys"
    keys.write_text("mine")
    folder = locate_cluster_folder(str(tmp_path), "default")
    folder.mkdir(parents=True, mode=0o700)
    (folder / name).symlink_to(keys)
    holder = {**dict.fromkeys(lock.RUN, "x"), "host": "h"}
    request: dict[str, Any] = {"cluster": "default", "holder": holder, "wait": 0}
    with contextlib.ExitStack() as files:
        answer = lock.hold_folder_lock(str(tmp_path), request, files)
    assert "symbolic link" in json.dumps(answer)
    assert keys.read_text() == "mine"


@pytest.mark.parametrize("user", ["abc", "-1", "1000;x", "9" * 30])
def test_a_user_id_that_is_none_is_that_of_the_process(
    user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_UID", user)
    monkeypatch.setenv("SUDO_GID", "1000")
    assert find_caller_ids() == (os.getuid(), os.getgid())
