"""`command` and `shell`: the user's programs, judged by exit status, and ended with the run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sparkfleet import commands
from sparkfleet.actions.run_context import RunOptions
from sparkfleet.commands import build_shell_command
from sparkfleet.errors import PlaybookError
from sparkfleet.model import Host, Outcome, Status
from sparkfleet.remote.local import LocalConnection
from tests.commandline import becomes
from tests.scenes import inventory, play

ONE = inventory(("spark-01",))
CHECK = RunOptions(check=True)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))


def _outcome(folder: Path, text: str, **settings: Any) -> Outcome:
    _, record = play(folder, f"- name: it\n  {text}\n", hosts=ONE, **settings)
    return record.outcomes("it")["spark-01"]


def test_what_a_command_said_is_registered_as_in_ansible(tmp_path: Path) -> None:
    outcome = _outcome(tmp_path, "command: sh -c 'echo one; echo two; echo three >&2'")
    assert outcome.status is Status.CHANGED
    assert outcome.data["rc"] == 0
    assert outcome.data["stdout"] == "one\ntwo"
    assert outcome.data["stdout_lines"] == ["one", "two"]
    assert outcome.data["stderr_lines"] == ["three"]


def test_every_argument_arrives_as_it_was_written(tmp_path: Path) -> None:
    words = ["a b", "", "'", '"', "$HOME", "*", "\\", "ü", "-n", "--"]
    outcome = _outcome(tmp_path, f"command: {json.dumps(['printf', '%s|', *words])}")
    assert outcome.data["stdout"] == "".join(f"{word}|" for word in words)


def test_a_command_sees_no_input_and_runs_at_home(tmp_path: Path) -> None:
    outcome = _outcome(tmp_path, "shell: cat; pwd")
    assert outcome.data["stdout"] == str(tmp_path / "home")


def test_an_exit_status_fails_and_shows_the_last_lines(tmp_path: Path) -> None:
    outcome = _outcome(tmp_path, "shell: echo that broke >&2; exit 7")
    assert outcome.status is Status.FAILED
    assert outcome.message == "exit status 7\nthat broke"
    assert outcome.data["rc"] == 7


def test_a_program_that_is_not_there_fails(tmp_path: Path) -> None:
    outcome = _outcome(tmp_path, "command: no-such-program")
    assert outcome.data["rc"] == 127
    assert "no-such-program" in outcome.message


@pytest.mark.parametrize("status", [116, 117, 118, 119])
def test_no_exit_status_is_taken_for_a_message_of_the_script(tmp_path: Path, status: int) -> None:
    outcome = _outcome(tmp_path, f"shell: exit {status}")
    assert (outcome.status, outcome.data["rc"]) == (Status.FAILED, status)


@pytest.mark.parametrize(
    ("more", "runs"),
    [
        ("creates: there", False),
        ("creates: 'th*'", False),
        ("creates: ~/folder/there", False),
        ("creates: missing", True),
        ("removes: there", True),
        ("removes: missing", False),
    ],
)
@pytest.mark.parametrize("options", [RunOptions(), CHECK], ids=["run", "check"])
def test_creates_and_removes_say_whether_it_runs(
    tmp_path: Path, more: str, *, runs: bool, options: RunOptions
) -> None:
    folder = tmp_path / "home" / "folder"
    folder.mkdir()
    (folder / "there").touch()
    text = f"command: {{cmd: touch made, chdir: ~/folder, {more}}}"
    outcome = _outcome(tmp_path, text, options=options)
    assert outcome.status is (Status.CHANGED if runs else Status.OK)
    assert (folder / "made").exists() == (runs and not options.check)


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    outcome = _outcome(tmp_path, "command: {cmd: ls, chdir: /none}")
    assert outcome.status is Status.FAILED
    assert outcome.message == "chdir: folder /none not found"


def test_check_runs_no_command(tmp_path: Path) -> None:
    outcome = _outcome(tmp_path, "command: touch made", options=CHECK)
    assert (outcome.status, outcome.data["rc"]) == (Status.SKIPPED, 0)
    assert list((tmp_path / "home").iterdir()) == []


def _alive(mark: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"sleep") and mark.encode() in words:
            found.append(path.parent.name)
    return found


def _gone(mark: str) -> bool:
    return becomes(lambda: not _alive(mark))


def test_a_command_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    mark = f"31{os.getpid()}1"
    outcome = _outcome(tmp_path, f"shell: {{cmd: 'sleep {mark} & sleep {mark}', timeout: 1}}")
    assert outcome.status is Status.FAILED
    assert "timeout after 1 s" in outcome.message
    assert _gone(mark)


@pytest.mark.parametrize("limit", ["", "60"])
@pytest.mark.parametrize("ignored", ["HUP", "TERM"])
def test_a_command_ends_with_its_children_when_its_input_ends(limit: str, ignored: str) -> None:
    mark = f"31{os.getpid()}{len(ignored)}{limit}"
    script = f'(trap "" {ignored}; sleep {mark}) & sleep {mark}'
    link = LocalConnection(Host(name="here"))
    channel = link.open(
        build_shell_command("transport/command", "0.2", limit, "", "", "", "sh", "-c", script)
    )
    assert becomes(lambda: bool(_alive(mark)))
    channel.end_input()
    assert _gone(mark)
    channel.close()


def test_a_killed_run_leaves_no_command_behind(tmp_path: Path) -> None:
    mark = f"31{os.getpid()}2"
    (tmp_path / "inventory.yml").write_text("sparks: {hosts: {a: {ansible_connection: local}}}")
    (tmp_path / "play.yml").write_text(f"- hosts: sparks\n  tasks:\n    - command: sleep {mark}\n")
    words = [sys.executable, "-m", "sparkfleet", "playbook.run", "play.yml"]
    with subprocess.Popen(
        [*words, "--inventory", "inventory.yml"], cwd=tmp_path, stdout=subprocess.DEVNULL
    ) as child:
        assert becomes(lambda: bool(_alive(mark)) or child.poll() is not None)
        assert child.poll() is None
        child.kill()
    assert _gone(mark)


FAKE_SUDO = """#!/bin/sh
[ "$1" = -n ] || exit 9
if [ -e "$HOME/password" ]; then echo "sudo: a password is required" >&2; exit 1; fi
user=$3
shift 4
SUDO_TO=$user exec "$@"
"""


@pytest.fixture
def sudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a sudo on PATH that only prints which user it would become; return its password file."""
    program = tmp_path / "bin" / "sudo"
    program.parent.mkdir()
    program.write_text(FAKE_SUDO)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return tmp_path / "home" / "password"


@pytest.mark.parametrize(
    ("variables", "line", "user"),
    [
        ({}, "become: true", "root"),
        ({"ansible_become": True}, "", "root"),
        ({"ansible_become_user": "nvidia"}, "become: true", "nvidia"),
        ({"ansible_become": False}, "become: true", ""),
        ({}, "", ""),
    ],
)
def test_become_goes_through_sudo(
    tmp_path: Path, sudo: Path, variables: dict[str, object], line: str, user: str
) -> None:
    hosts = inventory(("spark-01",), **variables)
    text = f"- name: it\n  command: sh -c 'echo $SUDO_TO'\n  {line}\n"
    _, record = play(tmp_path, text, hosts=hosts)
    assert record.outcomes("it")["spark-01"].data["stdout"] == user


def test_a_sudo_that_asks_for_a_password_is_reported(tmp_path: Path, sudo: Path) -> None:
    sudo.touch()
    outcome = _outcome(tmp_path, "command: touch made\n  become: true")
    assert outcome.status is Status.FAILED
    assert outcome.message == "sudo asks for a password (sudo: a password is required)"
    assert outcome.hint is not None
    assert "NOPASSWD" in outcome.hint
    assert not (tmp_path / "home" / "made").exists()


def test_arguments_are_rendered_for_each_host(tmp_path: Path) -> None:
    _, record = play(
        tmp_path, '- name: it\n  command: echo "{{ inventory_hostname }} {{ rank }}"\n'
    )
    said = {name: one.data["stdout"] for name, one in record.outcomes("it").items()}
    assert said == {"spark-01": "spark-01 0", "spark-02": "spark-02 1"}


def test_arguments_are_not_rendered_where_the_task_is_skipped(tmp_path: Path) -> None:
    text = '- name: it\n  command: echo "{{ only }}"\n  when: only is defined\n'
    _, record = play(tmp_path, text)
    assert {one.status for one in record.outcomes("it").values()} == {Status.SKIPPED}


def test_an_undefined_variable_is_an_error_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(PlaybookError, match="'nothing' is undefined") as caught:
        play(tmp_path, "- command: echo {{ nothing }}\n")
    assert caught.value.problems[0].where is not None
    assert caught.value.problems[0].where.line == 3


def test_programs_in_shell_pass_shellcheck() -> None:
    folder = Path(commands.__file__).parent / "onhost"
    programs = sorted(str(path) for path in folder.rglob("*.sh"))
    assert len(programs) == 2
    shellcheck = Path(sys.executable).with_name("shellcheck")
    subprocess.run([str(shellcheck), "-s", "sh", *programs], check=True)
