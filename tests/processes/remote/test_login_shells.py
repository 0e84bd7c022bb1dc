"""Login shells that print, ask or end before a program runs."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import Any

import pytest

from sparkfleet.commands import Command, build_multiplexer_command
from sparkfleet.errors import CommandError, UnreachableError
from sparkfleet.model import Host
from sparkfleet.remote import channel, connection, local, multiplexer
from sparkfleet.remote.channel import Channel
from sparkfleet.remote.local import LocalConnection
from sparkfleet.remote.multiplexer import Stream
from tests.commandline import PATIENCE, becomes
from tests.onhost import pack_program

# What Debian packages as a login shell (valid in /etc/shells once installed).
SHELLS = (
    *("bash", "rbash", "dash", "zsh", "ksh93", "mksh", "lksh", "yash", "posh"),
    *("tcsh", "bsd-csh", "fish", "elvish"),
)
WORDS = (
    "a b",
    "it's",
    'say "x"',
    "line\nbreak",
    "$HOME",
    "back\\slash\\",
    "!!",
    "*",
    "\\'",
    "#",
    "~",
)
ANSWER = "import json; print(json.dumps({'fine': True}))"


class ShellConnection(LocalConnection):
    """A host whose login shell does something before it runs a command."""

    def __init__(self, before: str) -> None:
        super().__init__(Host(name="spark-07"))
        self._before = before

    def _start(self, command: Command) -> Channel:
        script = f'{self._before}\nexec "$@"'
        return super()._start(replace(command, argv=("bash", "-c", script, "bash", *command.argv)))


def _ask(before: str, program: str = ANSWER) -> dict[str, Any]:
    with ShellConnection(before) as link:
        return link.parse_answer("program", link.run(pack_program(program), timeout=PATIENCE))


@pytest.mark.parametrize(
    "before",
    [
        "echo Welcome to spark-07",
        "printf 'no line end'",
        "head -c 60000 /dev/urandom",
        r"printf '\0sparkfleet'",
        r"printf '\0sparkfleet framesx'",
        "echo warning >&2",
    ],
)
def test_what_a_login_shell_prints_is_passed_over(before: str) -> None:
    assert _ask(before) == {"fine": True}


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("exit 1", "the login shell or python3 exited with status 1 before the program ran"),
        ("echo Go away; exit 3", "status 3 before the program ran: Go away"),
        ("echo broken >&2; exit 4", "status 4 before the program ran: broken"),
        ("kill -SEGV $$", "the login shell or python3 exited with status "),
        ("echo This account is currently not available.; exit 1", "that user refuses commands"),
        ("echo 'bash: line 1: python3: command not found' >&2; exit 127", "python3 was not found"),
        ("read -r x", "a start file of the login shell read a part of the program from its input"),
        (
            "head -c 3000000 /dev/zero; sleep 60",
            "the login shell or python3 exited with status 255",
        ),
    ],
)
def test_a_shell_that_ends_at_once_is_one_error(before: str, expected: str) -> None:
    with pytest.raises(CommandError) as caught:
        _ask(before)
    assert expected in caught.value.message
    assert caught.value.host == "spark-07"


def test_a_shell_that_asks_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    await_start = Stream.await_start

    def give_up_soon(stream: Stream, _timeout: float) -> None:
        """Wait until the shell has printed, however late, and hardly longer."""
        assert becomes(lambda: bool(stream._multiplexer.noise))
        await_start(stream, 0.1)

    monkeypatch.setattr(Stream, "await_start", give_up_soon)
    monkeypatch.setattr(multiplexer, "GRACE", 0.1)
    monkeypatch.setattr(local, "PATIENCE", 0.1)
    with pytest.raises(UnreachableError, match=r"it printed: Continue\? \[y/N\]"):
        _ask("echo 'Continue? [y/N]'; sleep 5")


def test_a_frame_that_is_too_long_ends_the_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiplexer, "MAX_FRAME", 100)
    result = ShellConnection("").run(pack_program("print('x' * 1000)"), timeout=PATIENCE)
    assert result.returncode == multiplexer.LOST
    assert result.stdout == b""


def test_output_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "MAX_OUTPUT", 1 << 20)
    endless = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    with pytest.raises(CommandError, match="printed more than 1 MiB and was stopped"):
        _ask("", endless)


def test_output_that_is_not_read_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiplexer, "MAX_WAITING", 1 << 20)
    endless = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    with ShellConnection("") as link:
        stream = link.open(pack_program(endless))
        assert stream.wait() == channel.FLOODED
        assert link.parse_answer("program", link.run(pack_program(ANSWER))) == {"fine": True}


def test_a_line_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "MAX_LINE", 1 << 20)
    endless = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    with ShellConnection("") as link:
        stream = link.open(pack_program(endless))
        with pytest.raises(channel.ChannelTimeoutError):
            list(stream.lines())
        stream.close()


class LoginConnection(LocalConnection):
    """A host whose login shell reads the line of each command, as sshd has it do."""

    def __init__(self, shell: str) -> None:
        super().__init__(Host(name="spark-07"))
        self._shell = shell

    def _start(self, command: Command) -> Channel:
        line = command.login_line()
        return super()._start(replace(command, argv=(self._shell, "-c", line), env={}))


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    """Return the path of a shell that is installed."""
    name = str(request.param)
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def test_every_login_shell_starts_programs(shell: str) -> None:
    with LoginConnection(shell) as link:
        assert link.parse_answer("program", link.run(pack_program(ANSWER), timeout=PATIENCE)) == {
            "fine": True
        }


def test_every_login_shell_passes_each_word_on_as_it_is(shell: str) -> None:
    show = "import json,os,sys; print(json.dumps([*sys.argv[1:], os.environ['OWN']]))"
    with LoginConnection(shell) as link:
        for words in (WORDS, *((word,) for word in WORDS)):
            command = Command(argv=("python3", "-c", show, *words), env={"OWN": words[0]})
            found = json.loads(link.run(command, timeout=PATIENCE).stdout)
            assert found == [*words, words[0]]


def test_no_line_for_a_login_shell_has_a_line_break() -> None:
    assert "\n" not in build_multiplexer_command().login_line()
    assert build_multiplexer_command().login_line() == build_multiplexer_command().line()
    assert "\n" not in Command(argv=("sh", "-c", "a\nb")).login_line()
    assert Command(argv=("ls", "-l", "a b")).login_line() == "ls -l 'a b'"


@pytest.mark.parametrize(
    ("shell", "file"),
    [("/usr/bin/fish", "config.fish"), ("/bin/tcsh", ".tcshrc"), ("/bin/bash", ".bashrc")],
)
def test_the_error_names_the_shell_and_the_files_that_it_reads(
    monkeypatch: pytest.MonkeyPatch, shell: str, file: str
) -> None:
    monkeypatch.setenv("SHELL", shell)
    with pytest.raises(CommandError) as caught:
        _ask('echo /etc/motd; case "$*" in *python3*) exit 7;; esac')
    assert f"the login shell {shell} or python3 exited with status 7" in caught.value.message
    assert file in str(caught.value.hint)


def test_a_shell_that_answers_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SHELL_TIMEOUT", 0.2)
    with pytest.raises(CommandError, match="the login shell or python3 exited with status 7"):
        _ask('case "$*" in *python3*) exit 7;; *) sleep 60;; esac')
