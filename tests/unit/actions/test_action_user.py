"""`user`: groups of a user, on this machine with stand-ins for what changes accounts."""

from __future__ import annotations

import getpass
import grp
import os
import pwd
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.actions.run_context import RunOptions
from sparkfleet.errors import PlaybookError
from sparkfleet.model import Outcome, Status
from tests.scenes import inventory, play

ONE = inventory(("spark-01",))
NAME = getpass.getuser()
OWN = os.getgrouplist(NAME, pwd.getpwnam(NAME).pw_gid)
IN = next(group.gr_name for group in grp.getgrall() if group.gr_gid in OWN)
OUT = next(group.gr_name for group in grp.getgrall() if group.gr_gid not in OWN)


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put programs on PATH that only write down what they are asked; returns where."""
    folder, words = tmp_path / "bin", tmp_path / "words"
    folder.mkdir()
    words.touch()
    for name in ("usermod", "gpasswd"):
        (folder / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{words}\n')
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return words


def _user(groups: str, more: str = "append: true") -> str:
    return f"- name: it\n  user: {{groups: {groups}, {more}}}\n"


def _run(folder: Path, text: str, **settings: Any) -> Outcome:
    return play(folder, text, hosts=ONE, **settings)[1].outcomes("it")["spark-01"]


def test_a_user_is_put_into_the_groups_that_it_lacks(tmp_path: Path, calls: Path) -> None:
    outcome = _run(tmp_path, _user(f"[{IN}, {OUT}]"))
    assert outcome.status is Status.CHANGED
    assert [change.summary for change in outcome.changes] == [f"run usermod -aG {OUT} {NAME}"]
    assert calls.read_text() == f"usermod -aG {OUT} {NAME}\n"


def test_check_shows_the_change_and_makes_none(tmp_path: Path, calls: Path) -> None:
    outcome = _run(tmp_path, _user(OUT), options=RunOptions(check=True))
    assert outcome.status is Status.CHANGED
    assert calls.read_text() == ""


def test_a_member_is_left_alone(tmp_path: Path, calls: Path) -> None:
    assert _run(tmp_path, _user(f"[{IN}]")).status is Status.OK
    assert calls.read_text() == ""


def test_undo_takes_out_of_what_was_added_only(tmp_path: Path, calls: Path) -> None:
    _run(tmp_path, _user(f"[{IN}, {OUT}]") + "- name: bad\n  command: 'false'\n")
    assert calls.read_text().splitlines()[1:] == [f"gpasswd -d {NAME} {OUT}"]


def test_a_missing_group_or_user_is_reported(tmp_path: Path, calls: Path) -> None:
    outcome = _run(tmp_path, _user("[no-such-group]"))
    assert outcome.status is Status.FAILED
    assert outcome.message == "group not found: no-such-group"
    outcome = _run(tmp_path, _user(IN, "append: true, name: no-such-user"))
    assert outcome.message == "user no-such-user not found"
    assert calls.read_text() == ""


def test_a_refusal_of_the_host_is_reported(tmp_path: Path, calls: Path) -> None:
    program = calls.parent / "bin" / "usermod"
    program.write_text("#!/bin/sh\necho usermod: Permission denied. >&2\nexit 1\n")
    outcome = _run(tmp_path, _user(OUT))
    assert outcome.message == "usermod: Permission denied."
    assert outcome.hint == "to do it as root, set become: true"


@pytest.mark.parametrize(
    ("groups", "more", "fault"),
    [
        (OUT, "append: false", "requires append: true"),
        ("'a,b'", "append: true", "groups must be a list"),
    ],
)
def test_taking_groups_away_is_not_possible(
    tmp_path: Path, groups: str, more: str, fault: str
) -> None:
    with pytest.raises(PlaybookError, match=fault):
        _run(tmp_path, _user(groups, more))
