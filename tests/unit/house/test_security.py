"""Every promise of docs/security.md names a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

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
