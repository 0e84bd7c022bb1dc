"""Every promise of docs/security.md names a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fuzz.__main__ import FUZZERS

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
