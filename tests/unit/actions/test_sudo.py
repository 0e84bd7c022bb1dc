"""Becoming another user with a password: it reaches a stand-in of sudo, and no other process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkfleet.commands import Command
from sparkfleet.errors import CommandError
from sparkfleet.launch.preflight import page_cache
from sparkfleet.model import Host
from sparkfleet.remote import sudo
from sparkfleet.remote.local import LocalConnection
from sparkfleet.remote.sudo import Sudo
from tests.standin.sudo import install

PASSWORD = "two words, \\x ąćé $HOME "
ROOT = Sudo(user="root", password=PASSWORD)
CAT = Command(argv=("cat",), stdin=b"the program's\nown")


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the stand-in on PATH; returns the folder with what it writes down."""
    monkeypatch.setenv("PATH", f"{install(tmp_path, PASSWORD)}:{os.environ['PATH']}")
    return tmp_path


@pytest.fixture
def link() -> Iterator[LocalConnection]:
    with LocalConnection(Host(name="here")) as opened:
        yield opened


def _given(fake: Path) -> list[str]:
    return (fake / "given").read_text().splitlines()


def _refused(link: LocalConnection, by: Sudo) -> CommandError:
    with pytest.raises(CommandError) as caught:
        sudo.run_with_sudo(link, CAT, by)
    return caught.value


def test_the_program_gets_its_own_input_and_only_that(fake: Path, link: LocalConnection) -> None:
    result = sudo.run_with_sudo(link, CAT, ROOT, payload=[b", and ", b"more"])
    assert result.stdout == b"the program's\nown, and more"
    assert (result.returncode, result.stderr.count("lecture")) == (0, 1)
    assert set(_given(fake)) == {PASSWORD}


def test_the_password_is_in_no_command_line_and_no_environment(
    fake: Path, link: LocalConnection
) -> None:
    command = Command(argv=("sh", "-c", "env; tr '\\0' '\\n' </proc/$PPID/cmdline"))
    said = sudo.run_with_sudo(link, command, ROOT).text
    assert sudo.BEGIN in (fake / "asked").read_text()
    seen = (fake / "asked").read_text() + (fake / "environment").read_text() + said
    assert "two words" not in seen
    assert "two words" not in repr((ROOT, sudo.wrap_in_sudo(CAT, ROOT)))


@pytest.mark.parametrize("free", ["true\ncat\nsh\n", "sh\n"], ids=["all", "this command"])
def test_a_sudo_that_wants_no_password_hands_none_on(
    fake: Path, link: LocalConnection, free: str
) -> None:
    (fake / "free").write_text(free)
    assert sudo.run_with_sudo(link, CAT, ROOT).stdout == CAT.stdin
    assert len(_given(fake)) == (free == "sh\n")


def test_a_wrong_password_is_tried_once_and_never_again(fake: Path, link: LocalConnection) -> None:
    wrong = Sudo(user="root", password="other")
    error = _refused(link, wrong)
    assert error.message == "sudo: incorrect password"
    assert "--ask-become-pass" in str(error.hint)
    assert _refused(link, wrong).message == error.message
    assert _given(fake) == ["other"]
    assert sudo.run_with_sudo(link, CAT, ROOT).stdout == CAT.stdin


def test_a_sudo_that_asks_is_reported_with_the_ways_to_answer(
    fake: Path, link: LocalConnection
) -> None:
    error = _refused(link, Sudo(user="root"))
    assert error.message == "sudo asks for a password (sudo: a password is required)"
    assert str(error.hint).startswith(
        "pass it with --ask-become-pass, or set ansible_become_password"
    )


def test_a_host_without_sudo_is_reported_as_such(
    tmp_path: Path, link: LocalConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path))
    for by in (ROOT, Sudo(user="root")):
        error = _refused(link, by)
        assert error.message == "sudo is not installed"
        assert error.hint == "as root on that host: apt-get install -y sudo"


def test_a_user_without_permission_sees_the_message_of_sudo(
    link: LocalConnection, fake: Path
) -> None:
    (fake / "bin" / "sudo").write_text(
        "#!/bin/sh\nprintf 'lecture\\n\\nme is not in the sudoers file.\\n' >&2\nexit 1\n"
    )
    message = "sudo failed (me is not in the sudoers file.)"
    assert _refused(link, ROOT).message == message


def test_a_program_of_sparkfleet_runs_with_a_password(fake: Path, link: LocalConnection) -> None:
    request = {"do": "look", "path": str(fake / "password"), "follow": True}
    assert sudo.run_program_with_sudo(link, "host/files", request, sudo=ROOT)["kind"] == "file"
    assert _given(fake) == [PASSWORD, PASSWORD]


def test_the_page_cache_may_be_emptied_by_password(fake: Path, link: LocalConnection) -> None:
    assert page_cache.check_drop_caches(link, "other").seen == "sudo: incorrect password"
    verdict = page_cache.check_drop_caches(link, PASSWORD)
    assert (verdict.refuses, verdict.seen) == (False, "allowed with the password")
