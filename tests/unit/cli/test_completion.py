"""Completion of tasks, options and values, and the help that has the kinds of values."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sparkfleet.cli.completion import (
    FILES,
    FOLDERS,
    SHELLS,
    SOURCES,
    format_script,
    list_candidates,
)
from sparkfleet.cli.task_help import format_usage, format_usual, list_option_rows, list_options_of
from sparkfleet.cli.tasks import namespace
from sparkfleet.errors import UsageError
from tests.commandline import PATIENCE

PAIR = str(Path(__file__).parents[3] / "inventories" / "pair.yml")
THOROUGH = pytest.mark.thorough  # the same shape once more, with a start of Python
UNLISTED = {  # kinds without a list of values
    *("TEXT", "N", "DURATION", "REASON", "TAG", "NAME", "VERSION", "TOKENS", "FRACTION", "MODEL"),
    *("PYTHON", "MACHINE", "FINGERPRINT", "ORG/MODEL", "URL", "SUBNET", "ADDRESS:PORT"),
}
ZSH_SETUP = """
autoload -U compinit && compinit -u -D
eval "$(sparkfleet --print-completion-script zsh)"
show-line() { print -r "<$BUFFER>"; BUFFER= }
zle -N show-line
bindkey '^X' show-line
unsetopt menu_complete auto_menu
print RE''ADY
"""
BASH_TEST = """
sparkfleet() {{ {python} -m sparkfleet "$@"; }}
eval "$(sparkfleet --print-completion-script bash)"
COMP_WORDBREAKS=$' \\t\\n"\\'@><=;|&(:'
COMP_LINE={line!r}; COMP_POINT=${{#COMP_LINE}}
_complete_sparkfleet
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def _complete(*words: str) -> list[str]:
    return list(list_candidates(words))


@pytest.mark.parametrize(
    ("words", "candidates"),
    [
        (("cluster.u",), ["cluster.unlock", "cluster.up"]),
        (("help", "hosts.t"), ["hosts.trust"]),
        (("--print-completion-script", ""), list(SHELLS)),
        (("cluster.up", "--rec"), ["--recipe"]),
        (("cluster.up", "--recipe", "gpt-oss-2"), ["gpt-oss-20b", FILES]),
        (("cluster.up", "--recipe=gpt-oss-2"), ["--recipe=gpt-oss-20b", FILES]),
        (("cluster.up", "--output=j"), ["--output=json"]),
        (("cluster.up", "--executor", ""), ["ray", "mp", "auto"]),
        (("cluster.up", "-i", "inv"), [FILES]),
        (("cluster.render", "--out", ""), [FOLDERS]),
        (("cluster.up", "-i", PAIR, "--limit", "spark2"), ["spark2"]),
        (("cluster.up", f"--inventory={PAIR}", "-l", "sparks"), ["sparks"]),
        (("cluster.up", "-i", PAIR, "--cluster", ""), ["default"]),
        (("cluster.up", "--set", "vllm_por"), ["vllm_port="]),
        (("inventory.host", "-i", PAIR, ""), ["spark1", "spark2"]),
        (("recipes.show", "gpt-oss-2"), ["gpt-oss-20b", FILES]),
        (("recipes.show", "gpt-oss-20b", ""), []),
        (("cluster.switch", "--yes", "gpt-oss-2"), ["gpt-oss-20b", FILES]),
        (("lab.fault", "spark-01", "link-d"), ["link-down"]),
        (("playbook.actions", "--only", "debu"), ["debug"]),
        (("playbook.run", "chat"), ["chat-template", FILES]),
        (("doctor", ""), [FILES]),
        (("init", ""), [FOLDERS]),
        (("cluster.up", "--yes", ""), []),
    ],
)
def test_the_last_word_is_completed(words: tuple[str, ...], candidates: list[str]) -> None:
    assert _complete(*words) == candidates


HOSTILE = ("$(touch x)", "`touch x`", "a;touch x", "a b", "a\x1b[2J", "a\nb", "a&b", "a'b", "a>b")


def test_a_name_that_a_shell_would_obey_is_not_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bash puts a candidate into the line as it is, and a project can come from others."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "playbooks" / "recipes"
    folder.mkdir(parents=True)
    for name in (*HOSTILE, "mine"):
        (folder / f"{name}.yml").write_text("vllm_model: a/b\n")
    offered = _complete("recipes.show", "")
    assert "mine" in offered
    assert all(re.fullmatch(r"[\w.:/-]+", each) for each in offered)


def test_nothing_is_said_where_the_inventory_cannot_be_read() -> None:
    assert _complete("cluster.up", "-i", "nowhere.yml", "--limit", "s") == []


@pytest.mark.parametrize("task", sorted(namespace.task_names))
def test_every_kind_of_value_is_listed_or_known_to_be_free(task: str) -> None:
    for option in list_options_of(namespace[task]):
        assert option.value in SOURCES or "|" in option.value or option.value in UNLISTED, (
            option.name
        )


def test_help_shows_kinds_and_defaults() -> None:
    rows = dict(list_option_rows(list_options_of(namespace["cluster.up"])))
    assert "-f N, --forks=N" in rows
    assert rows["-f N, --forks=N"].endswith("(default: 32)")
    assert "--output=text|json" in rows
    assert not rows["--tp=N"].endswith(")")
    every = next(each for each in list_options_of(namespace["serve.watch"]) if each.name == "every")
    assert format_usual(every) == " (default: 2)"


def test_arguments_that_may_be_left_out_are_in_the_usage() -> None:
    for task, usage in (("init", "x init [DIR] [--options]"), ("lab.fault", "x lab.fault HOST")):
        assert format_usage("x", task, list_options_of(namespace[task])).startswith(usage)


@pytest.mark.parametrize(
    ("line", "replies"),
    [
        ("sparkfleet cluster.up --recipe=gpt-oss-2", ["gpt-oss-20b"]),
        ("sparkfleet cluster.up -i invent", ["inventories"]),
        *(
            pytest.param(line, replies, marks=THOROUGH)
            for line, replies in (
                ("sparkfleet cluster.u", ["cluster.unlock", "cluster.up"]),
                ("sparkfleet cluster.up --recipe gpt-oss-2", ["gpt-oss-20b"]),
                ("sparkfleet cluster.up --inventory=inventories/p", ["inventories/pair.yml"]),
            )
        ),
    ],
)
def test_bash_completes_what_is_typed(line: str, replies: list[str], tmp_path: Path) -> None:
    (tmp_path / "inventories").mkdir()
    (tmp_path / "inventories/pair.yml").write_text("")
    script = BASH_TEST.format(python=sys.executable, line=line)
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.split() == replies


TYPED = [
    ("sparkfleet cluster.unl", "sparkfleet cluster.unlock"),
    ("sparkfleet cluster.up --recipe gpt-oss-2", "sparkfleet cluster.up --recipe gpt-oss-20b"),
    ("sparkfleet cluster.up --recipe=gpt-oss-2", "sparkfleet cluster.up --recipe=gpt-oss-20b"),
    (
        "sparkfleet cluster.up --inventory=inventories/p",
        "sparkfleet cluster.up --inventory=inventories/pair.yml",
    ),
    ("sparkfleet lab.fault spark-01 link-d", "sparkfleet lab.fault spark-01 link-down"),
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make a folder with an inventory, and a `sparkfleet` in bin/."""
    (tmp_path / "inventories").mkdir()
    (tmp_path / "inventories/pair.yml").write_text("")
    program = tmp_path / "bin/sparkfleet"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m sparkfleet "$@"\n')
    program.chmod(0o755)
    return tmp_path


def _extend_path(project: Path) -> dict[str, str]:
    return {**os.environ, "PATH": f"{project}/bin:{os.environ['PATH']}", "HOME": str(project)}


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.parametrize(
    ("line", "completed"),
    [
        *TYPED[2:4],
        *(pytest.param(*pair, marks=pytest.mark.thorough) for pair in (*TYPED[:2], TYPED[4])),
    ],
)
def test_fish_completes_what_is_typed(line: str, completed: str, project: Path) -> None:
    script = "sparkfleet --print-completion-script fish | source; complete -C $argv[1]"
    done = subprocess.run(
        ["fish", "--no-config", "-c", script, line],
        capture_output=True,
        text=True,
        check=True,
        cwd=project,
        env=_extend_path(project),
    )
    (word,) = done.stdout.splitlines()
    assert completed.endswith(f" {word}")


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes_what_is_typed(project: Path) -> None:
    (project / "zshrc").write_text(ZSH_SETUP)
    terminal, end = pty.openpty()
    shell = subprocess.Popen(
        ["zsh", "-f", "-i"],
        stdin=end,
        stdout=end,
        stderr=end,
        cwd=project,
        env={**_extend_path(project), "TERM": "dumb"},
        start_new_session=True,
    )
    os.close(end)
    try:
        os.write(terminal, b". ./zshrc\n")
        _read_until(terminal, "READY")
        for line, completed in TYPED:
            os.write(terminal, f"{line}\t\x18".encode())  # Tab, and the key that shows the line
            assert f"<{completed}>" in _read_until(terminal, ">\r\n").replace(" >", ">")
    finally:
        shell.kill()
        shell.wait()
        os.close(terminal)


def _read_until(terminal: int, mark: str) -> str:
    text = ""
    while mark not in text:
        assert select.select([terminal], [], [], PATIENCE)[0], text
        text += os.read(terminal, 65536).decode(errors="replace")
    return text


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_script_of_a_shell_names_the_program(shell: str) -> None:
    script = format_script(shell, "sparkfleet")
    assert "--complete-words" in script
    assert "BINARY" not in script


def test_another_shell_is_refused() -> None:
    with pytest.raises(UsageError, match="no completion for shell 'tcsh'"):
        format_script("tcsh", "sparkfleet")
