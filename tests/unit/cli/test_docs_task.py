"""`docs`: the manual of the installed version."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from sparkfleet.cli.docs.pages import find_page, list_pages, show_pages
from sparkfleet.errors import UsageError
from sparkfleet.resources import PACKAGE
from tests.commandline import run_as_typed

CITED = re.compile(r"(?<![\w/ ])docs/([a-z-]+)\.md")


def test_every_page_is_listed_with_its_title() -> None:
    done = run_as_typed("docs")
    assert done.code == 0, done.output
    for name, path in list_pages().items():
        title = path.read_text().splitlines()[0].removeprefix("# ")
        assert re.search(rf"^{name} +{re.escape(title)}$", done.output, re.MULTILINE), name


@pytest.mark.parametrize("typed", ["gateway", "gateway.md", "docs/gateway.md", "gateway.md#keys"])
def test_a_page_is_printed_as_it_is(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert show_pages(typed) == 0
    assert capsys.readouterr().out == list_pages()["gateway"].read_text()


def test_a_page_needs_no_option_name() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sparkfleet", "docs", "exit-codes"], capture_output=True, check=True
    )
    assert done.stdout == list_pages()["exit-codes"].read_bytes()


def test_a_page_that_does_not_exist_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        show_pages("gatway")
    assert caught.value.message == "page 'gatway' not found"
    assert caught.value.hint == "did you mean 'gateway'?"


@pytest.mark.parametrize("typed", ["", "..", "../README", "/etc/passwd", "x\0"])
def test_only_pages_of_the_manual_are_read(typed: str) -> None:
    with pytest.raises(UsageError, match="not found"):
        find_page(typed, list_pages())


def test_every_page_that_a_message_names_is_in_the_manual() -> None:
    sources = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    cited = set(CITED.findall(sources))
    assert len(cited) > 5
    assert cited - set(list_pages()) == set()
