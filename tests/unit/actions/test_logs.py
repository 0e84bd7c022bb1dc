"""Following logs by reading again: each new line is shown once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sparkfleet.cli.cluster.logs import (
    _print_logs,
    _print_new_lines,
    _split_lines,
    find_new_lines,
)
from sparkfleet.remote.pool import Answers


@pytest.mark.parametrize(
    ("last", "now", "new"),
    [
        ("abc", "abc", ""),
        ("abc", "abcd", "d"),
        ("abc", "cde", "de"),  # the look goes back so far only
        ("abc", "xyz", "xyz"),  # another run's log
        ("", "ab", "ab"),
        ("abc", "", ""),
        ("aa", "aaa", "a"),
    ],
)
def test_only_new_lines_are_fresh(last: Sequence[str], now: Sequence[str], new: str) -> None:
    assert "".join(find_new_lines(last, now)) == new


def test_a_new_line_is_shown_with_its_host_and_role(capsys: pytest.CaptureFixture[str]) -> None:
    last = {("a", "serve"): ["one"], ("b", "ray"): ["old"]}
    kept = _print_new_lines(last, {("a", "serve"): ["one", "two"], ("a", "ray"): ["up"]})
    assert capsys.readouterr().out == "a serve | two\na ray | up\n"
    assert _print_new_lines(kept, {("b", "ray"): ["old", "new"]})["a", "ray"] == ["up"]
    assert capsys.readouterr().out == "b ray | new\n"


def test_logs_are_shown_without_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    text = "non-default args: {'api_key': ['hunter2'], 'port': 8000}\n"
    answers = Answers(values={"spark-1": {"serve": text}}, errors={})
    _print_logs(answers)
    _print_new_lines({}, _split_lines(answers))
    shown = capsys.readouterr().out
    assert "hunter2" not in shown
    assert shown.count("'api_key': (secret)") == 2
