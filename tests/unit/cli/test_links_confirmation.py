"""Confirmation of a change of links over which a cluster serves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkfleet.cli import prompt
from sparkfleet.cli.links.confirmation import ServingCluster, is_confirmed
from sparkfleet.cli.links.options import ChangeOptions
from sparkfleet.cli.links.run_in_progress import RunInProgress
from sparkfleet.cli.options import parse_options
from sparkfleet.errors import HostError, LockHeldError

SERVING = ServingCluster(name="default", model="tiny-spark", hosts=("spark-01", "spark-02"))


def _options(**typed: object) -> ChangeOptions:
    return parse_options(ChangeOptions, "links.revert", typed)


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt, "is_interactive", lambda: False)


def test_yes_alone_is_refused_while_it_serves() -> None:
    with pytest.raises(HostError, match="runs tiny-spark on spark-01, spark-02") as caught:
        is_confirmed(_options(yes=True), "restore?", SERVING)
    assert "--while-serving" in str(caught.value.hint)
    assert caught.value.exit_code == 2


def test_yes_alone_is_refused_while_a_run_is_in_progress() -> None:
    holder = "ada on desk (pid 7) since 12:00: cluster.up"
    run = RunInProgress(cluster="default", host="spark-01", holder=holder)
    changed = replace(SERVING, run=run)
    with pytest.raises(
        LockHeldError, match="cluster default, locked on spark-01 by ada on"
    ) as caught:
        is_confirmed(_options(yes=True), "restore?", changed)
    assert "nothing was changed" in caught.value.message
    assert is_confirmed(_options(yes=True, while_serving=True), "restore?", changed)


def test_links_are_changed_while_it_serves_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    assert is_confirmed(_options(yes=True, while_serving=True), "restore?", SERVING)
    assert "cluster default runs tiny-spark" in capsys.readouterr().out


def test_without_an_answer_changes_are_only_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert not is_confirmed(_options(), "restore?", None)
    assert "nothing was changed; to make these changes: --yes" in capsys.readouterr().out


def test_a_terminal_shows_what_serves_before_the_question(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prompt, "is_interactive", lambda: True)
    shown_before: list[str] = []

    def answer(question: str) -> str:
        shown_before.append(capsys.readouterr().out)
        return "y" if question == "restore? [y/N] " else ""

    monkeypatch.setattr("builtins.input", answer)
    assert is_confirmed(_options(), "restore?", SERVING)
    assert "runs tiny-spark" in shown_before[0]
