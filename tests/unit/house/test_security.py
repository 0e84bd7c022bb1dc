"""Every promise of docs/security.md names a test that exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.fuzz.__main__ import FUZZERS
from tests.source import parse_package

CHECKOUT = Path(__file__).parents[3]
PROMISES = (CHECKOUT / "docs" / "security.md").read_text()


def test_each_promise_names_tests_that_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", PROMISES))
    files = [*(CHECKOUT / "tests").rglob("test_*.py")]
    existing = {
        name
        for file in files
        for name in re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE)
    }
    assert named - existing == set()
    for promise in re.findall(r"^- .*(?:\n  .*)*", PROMISES, re.MULTILINE):
        assert "`test_" in promise


def test_every_finding_of_the_audit_has_a_row_with_tests() -> None:
    rows = re.findall(r"^\| ((?:[SL]\d+(?:, )?)+) \| .+ \| (.+) \|$", PROMISES, re.MULTILINE)
    found = {name for names, _ in rows for name in names.split(", ")}
    every = {f"S{number}" for number in range(1, 19)} | {f"L{number}" for number in range(1, 20)}
    assert found == every
    assert all("`test_" in tests for _, tests in rows)


# They return the answer of a host as it is.
RAW = {"run_program", "run_program_with_sudo", "answer"}
# Here it is given to a parser, or it has no more than was checked.
PARSED = {
    "remote/connection.py": "query",
    "remote/sudo.py": "query_with_sudo",
    "weights/transfer/session.py": "query",
}


def test_answers_of_hosts_are_used_through_parsers_only() -> None:
    found = []
    for module, tree in parse_package().items():
        if module in PARSED or module.startswith("onhost/"):
            continue
        dropped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        found += [
            f"{module}:{node.lineno}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name | ast.Attribute)
            and (node.func.id if isinstance(node.func, ast.Name) else node.func.attr) in RAW
            and id(node) not in dropped
        ]
    assert found == []


def test_the_manual_says_that_a_recipe_is_trusted() -> None:
    text = (CHECKOUT / "docs" / "recipes.md").read_text()
    assert "A recipe is trusted like a script" in text


@pytest.mark.parametrize("name", FUZZERS)
def test_each_fuzzer_exists_and_limits_the_time_of_an_input(name: str) -> None:
    for test in FUZZERS[name]:
        path, _, function = test.partition("::")
        text = (CHECKOUT / "tests/unit" / path).read_text()
        assert f"def {function}(" in text
        assert "limit_cpu_time()" in text
