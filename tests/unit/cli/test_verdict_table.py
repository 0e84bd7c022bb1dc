"""The table of verdicts: which rows it has, and their order."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from sparkfleet.cli.links.bench_view import print_missing_collective
from sparkfleet.cli.views.verdicts import print_verdicts
from sparkfleet.model import Severity, Verdict
from sparkfleet.verdicts import build_verdict, info, warning

TEXTS = {"expected": "e", "seen": "x"}


def _print_lines(verdicts: list[Verdict], *, verbose: bool) -> list[str]:
    stream = io.StringIO()
    print_verdicts(Console(file=stream, width=120), verdicts, verbose=verbose)
    return stream.getvalue().splitlines()


@pytest.mark.parametrize(
    ("verbose", "shown"),
    [(False, ["error", "warning"]), (True, ["error", "warning", "info", "ok"])],
)
def test_verdicts_that_refuse_come_first_and_others_than_warnings_only_if_verbose(
    verbose: bool, shown: list[str]
) -> None:
    order = (Severity.INFO, Severity.ERROR, Severity.OK, Severity.WARNING)
    verdicts = [
        build_verdict(severity, f"check.{severity}", "a", "s", **TEXTS) for severity in order
    ]
    lines = _print_lines(verdicts, verbose=verbose)
    assert [line.split()[0] for line in lines[1:-1]] == shown
    assert lines[-1] == "4 checks: 1 ok, 1 info, 1 warning, 1 error"


def test_verdicts_without_a_warning_are_a_count_only() -> None:
    lines = _print_lines([info("x", "a", "s", **TEXTS)], verbose=False)
    assert lines == ["1 check: 1 info"]


def test_a_warning_that_hosts_share_is_one_row_and_counts_for_each() -> None:
    verdicts = [warning("x", host, "s", **TEXTS) for host in ("a", "b")]
    lines = _print_lines(verdicts, verbose=False)
    assert [line.split()[:3] for line in lines[1:-1]] == [["warning", "a,", "b"]]
    assert lines[-1] == "2 checks: 2 warnings"


def test_a_collective_that_was_not_run_is_explained_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    texts = {
        "expected": "an engine whose Python has torch",
        "seen": "no torch",
        "fix": "install it",
    }
    verdicts = [info("link.collective", host, "all_gather", **texts) for host in ("a", "b")]
    print_missing_collective([*verdicts, info("x", "a", "s", **TEXTS)])
    assert capsys.readouterr().out == "collective: not measured: no torch; install it\n"
