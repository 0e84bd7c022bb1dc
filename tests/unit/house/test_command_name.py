"""Commands in hints and help name the program that the user typed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

import pytest

from sparkfleet import command_name
from sparkfleet.cli.tasks import namespace
from sparkfleet.errors import Problem, UsageError
from sparkfleet.model import Outcome, Severity, Status, Verdict
from tests.source import list_nodes


@pytest.fixture
def invoke() -> Iterator[None]:
    """Let the user run `invoke`."""
    command_name.set_program_name("invoke")
    yield
    command_name.set_program_name(command_name.DEFAULT)


def test_a_command_names_the_installed_program_by_default() -> None:
    assert command_name.name_command("cluster.up") == "sparkfleet cluster.up"
    assert command_name.expand_commands("run {task:doctor}") == "run sparkfleet doctor"


@pytest.mark.usefixtures("invoke")
def test_a_command_names_invoke_in_a_checkout() -> None:
    assert command_name.name_command("cluster.up") == "invoke cluster.up"
    assert (
        command_name.expand_commands("{task:lab.up} --hosts 2, {tp}")
        == "invoke lab.up --hosts 2, {tp}"
    )


@pytest.mark.usefixtures("invoke")
def test_hints_and_fixes_are_expanded_wherever_they_are_shown() -> None:
    text = "start it: {task:cluster.up}"
    shown = "start it: invoke cluster.up"
    verdict = Verdict(
        check="a.b",
        severity=Severity.ERROR,
        host="h",
        subject="s",
        expected="e",
        seen="x",
        fix=text,
    )
    assert Problem(message="down", hint=text).hint == shown
    assert UsageError("down", hint=text).hint == shown
    assert Outcome(host="h", status=Status.FAILED, hint=text).hint == shown
    assert verdict.fix == shown


def _strings(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the texts among `nodes`; a call in an f-string stands for the program."""
    for part in nodes:
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def _hints(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the texts of all hints and fixes; names in calls of `name_command` are no texts.

    A program for hosts has its hint under that key of its answer, or with its refusal.
    """
    for node in nodes:
        if isinstance(node, ast.Dict):
            keyed = zip(node.keys, node.values, strict=True)
            hints = [value for key, value in keyed if getattr(key, "value", "") == "hint"]
            yield from _strings(part for hint in hints for part in ast.walk(hint))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "RefusedError":
            yield from _strings(part for hint in node.args[1:] for part in ast.walk(hint))
        if isinstance(node, ast.keyword) and node.arg in ("hint", "fix"):
            named = {
                text
                for call in ast.walk(node.value)
                if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "name_command"
                for text in _strings(ast.walk(call))
            }
            yield from (text for text in _strings(ast.walk(node.value)) if text not in named)


def test_every_command_in_a_text_names_the_program() -> None:
    tasks = "|".join(re.escape(name) for name in namespace.task_names)
    typed = re.compile(rf"\b(?:invoke|sparkfleet) (?:{tasks})\b")
    bare = re.compile(rf"(?<!\{{task:)(?<![\w.])(?:{tasks.replace('doctor|', '')})(?![\w.]*\w)")
    wrong = []
    for name, nodes in list_nodes().items():
        wrong += [(name, text) for text in _strings(nodes) if typed.search(text)]
        wrong += [(name, text) for text in _hints(nodes) if bare.search(text)]
    assert wrong == []
