"""The password for sudo, from the command line's view: asked once, used on all hosts, not shown."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sparkfleet.actions.run_context import RunOptions
from sparkfleet.errors import InventoryError, PlaybookError
from tests.commandline import run_command, start_command
from tests.scenes import inventory, play
from tests.standin.sudo import install

SECRET = "hush-hush"
HOSTS = "sparks: {hosts: {spark-01: , spark-02: }, vars: {ansible_connection: local%s}}\n"
TASKS = "- name: it\n  command: cat\n  become: true\n- debug: {var: hostvars}\n"
PLAY = "- hosts: sparks\n  tasks:\n" + "".join(f"    {line}\n" for line in TASKS.splitlines())


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a sudo that wants a password on PATH, and write a playbook."""
    (tmp_path / "play.yml").write_text(PLAY)
    (tmp_path / "hosts.yml").write_text(HOSTS % "")
    monkeypatch.setenv("PATH", f"{install(tmp_path, SECRET)}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@dataclass(frozen=True)
class Done:
    """Exit code of a command line, its output with its errors, and that of its terminal."""

    code: int
    output: str
    terminal: str


def _words(fake: Path, *words: str) -> list[str]:
    play, hosts = str(fake / "play.yml"), str(fake / "hosts.yml")
    return ["playbook.run", play, "--inventory", hosts, *words]


def _type(fake: Path, answer: str, *words: str) -> Done:
    """Run it on a terminal of its own, where `answer` is typed when something is asked."""
    ours, theirs = os.openpty()
    with start_command(*_words(fake, *words), terminal=theirs, session=True) as child:
        os.close(theirs)
        terminal = b"".join(_until(ours, b"hosts: "))
        os.write(ours, f"{answer}\n".encode())
        code, output = child.read_rest()
        terminal += b"".join(_until(ours, None))
    os.close(ours)
    return Done(code=code, output=output, terminal=terminal.decode())


def _until(terminal: int, mark: bytes | None) -> Iterator[bytes]:
    """Yield what comes to a terminal, up to what ends with `mark`, or to its end."""
    piece = b""
    while mark is None or not piece.endswith(mark):
        try:
            piece = os.read(terminal, 1000)
        except OSError:  # no process has it open any more
            return
        yield piece


def test_one_answer_is_for_all_hosts_and_is_shown_nowhere(fake: Path) -> None:
    done = _type(fake, SECRET, "-K", "--output", "json", "--verbose")
    assert done.terminal.split("\r\n") == ["sudo password for the hosts: ", ""]
    result = json.loads(done.output)
    (content,) = result["plays"]
    assert {name: one["status"] for name, one in content["tasks"][0]["hosts"].items()} == {
        "spark-01": "changed",
        "spark-02": "changed",
    }
    assert set((fake / "given").read_text().splitlines()) == {SECRET}
    log = (Path(result["log"]) / "run.log").read_text()
    assert SECRET not in done.output + log + (fake / "asked").read_text()


def test_a_wrong_answer_is_reported_by_each_host(fake: Path) -> None:
    done = _type(fake, "wrong-one", "--ask-become-pass")
    assert done.code == 2
    assert done.output.count("sudo: incorrect password") == 2
    assert (fake / "given").read_text().splitlines() == ["wrong-one", "wrong-one"]


def test_no_answer_ends_it_before_a_host_is_touched(fake: Path) -> None:
    done = _type(fake, "", "--ask-become-pass")
    assert done.code == 5
    assert done.output.startswith("no password was entered")
    assert (fake / "asked").read_text() == ""


def test_without_a_terminal_it_says_what_to_do(fake: Path) -> None:
    with start_command(*_words(fake, "-K"), session=True) as child:
        code, output = child.read_rest()
    assert code == 5
    assert "--ask-become-pass requires a terminal" in output
    assert "ansible_become_password: {from_file: PATH}" in output
    assert (fake / "asked").read_text() == ""


def test_a_password_that_others_may_read_is_refused_before_a_host_is_touched(fake: Path) -> None:
    (fake / "hosts.yml").write_text(HOSTS % f", ansible_become_password: {SECRET}")
    (fake / "hosts.yml").chmod(0o644)
    done = run_command(*_words(fake))
    assert done.returncode == 5
    assert f"chmod 600 {fake / 'hosts.yml'}" in done.stderr
    assert done.stderr.count("other users can read") == 1
    assert SECRET not in done.stdout + done.stderr
    (fake / "hosts.yml").chmod(0o600)
    done = run_command(*_words(fake, "-v"))
    assert done.returncode == 0
    assert SECRET not in done.stdout + done.stderr
    assert (fake / "given").read_text().splitlines() == [SECRET] * 4


def test_a_template_does_not_see_a_password(fake: Path) -> None:
    hosts = inventory(("spark-01",), ansible_become_password=SECRET)
    words = "{{ ansible_become_password }} {{ hostvars['spark-01'].ansible_become_password }}"
    _, record = play(fake, f'- name: it\n  debug: {{msg: "{words}"}}\n', hosts=hosts)
    assert record.outcomes("it")["spark-01"].message == "(secret) (secret)"
    assert SECRET not in repr(record.events)


def test_a_variable_wins_over_what_was_typed(fake: Path) -> None:
    hosts = inventory(("spark-01",), ansible_become_password=SECRET)
    _, record = play(fake, TASKS, hosts=hosts, options=RunOptions(sudo_password="typed"))
    assert record.outcomes("it")["spark-01"].message == ""
    assert set((fake / "given").read_text().splitlines()) == {SECRET}
    assert SECRET not in repr(record.events)


def test_a_task_sets_no_password(fake: Path) -> None:
    with pytest.raises(PlaybookError) as caught:
        play(fake, f"- set: {{ansible_become_password: {SECRET}}}\n", hosts=inventory(("one",)))
    assert "cannot be set here; use the inventory, vars or" in caught.value.message
    assert SECRET not in str(caught.value)


def test_a_password_in_a_play_that_others_may_read_is_refused(fake: Path) -> None:
    text = PLAY.replace("  tasks:\n", f"  vars: {{ansible_become_pass: {SECRET}}}\n  tasks:\n")
    with pytest.raises(InventoryError, match="other users can read") as caught:
        play(fake, text, hosts=inventory(("spark-01",)))
    assert SECRET not in str(caught.value)
    assert (fake / "given").read_text() == ""


def test_a_play_gives_a_password_of_its_own(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_SUDO", SECRET)
    lookup = "    ansible_become_pass: \"{{ lookup('env', 'SPARK_SUDO') }}\"\n"
    text = PLAY.replace("  tasks:\n", f"  vars:\n{lookup}  tasks:\n")
    ended, record = play(fake, text, hosts=inventory(("spark-01",)))
    assert ended.exit_code == 0
    assert set((fake / "given").read_text().splitlines()) == {SECRET}
    assert SECRET not in repr(record.events)
