"""A few runs of the campaign; `python -m tests.campaign` does more."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.campaign.__main__ import choose_numbered, read_results, run_campaign
from tests.campaign.cases import Case, choose_cases
from tests.campaign.running import Result
from tests.campaign.table import Row, format_tables

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]
SEED = 8242  # its first four cases end early
FEW, MANY = 4, 300
HOUR = 60.0  # minutes
KINDS = ["fault", "signal", "odd host", "operators"]


@pytest.mark.parametrize(
    "runs",
    [
        pytest.param(FEW, id="few", marks=pytest.mark.timeout(1200)),
        pytest.param(MANY, id="many", marks=[pytest.mark.thorough, pytest.mark.timeout(7200)]),
    ],
)
def test_every_run_of_the_campaign_is_explained(runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", os.environ.get("XDG_STATE_HOME", "/tmp"))
    results = list(run_campaign(choose_numbered(SEED, runs), minutes=HOUR))
    unexplained = {str(result.case): result.wrong for result in results if result.wrong}
    assert unexplained == {}
    assert results


def test_each_kind_takes_its_turn() -> None:
    assert [case.kind for case in choose_cases(SEED, 4)] == KINDS


def test_no_case_is_chosen_twice_and_a_seed_gives_the_same() -> None:
    cases = list(choose_cases(SEED, MANY))
    assert len(set(cases)) == MANY
    assert cases == list(choose_cases(SEED, MANY))


def test_the_parts_of_a_campaign_are_all_of_it() -> None:
    parts = [choose_numbered(SEED, 9, part=f"{which}/2") for which in (1, 2)]
    assert sorted(number for part in parts for number, _ in part) == list(range(1, 10))
    assert [number for number, _ in choose_numbered(SEED, 9, only=[4, 7])] == [4, 7]


def test_links_apply_is_broken_on_each_cabling() -> None:
    cablings = {case.cabling for case in choose_cases(SEED, MANY) if case.task == "links.apply"}
    assert cablings == {"crossed", "ring", "switch"}


def test_of_a_run_that_was_repeated_the_last_result_counts(tmp_path: Path) -> None:
    case = Case(kind="fault", task="up", what="mtu", phase="Serve")
    for name, wrong in (("first", ["no cause"]), ("again", [])):
        row = Row.of(Result(case=case, number=7, wrong=wrong), SEED)
        (tmp_path / name).write_text(f"{row.to_line()}\n")
    rows = read_results([tmp_path / "first", tmp_path / "again"])
    assert [row.wrong for row in rows] == [[]]


def test_the_tables_count_runs_by_what_happens_and_by_phase() -> None:
    case = Case(kind="fault", task="up", what="mtu", phase="Serve", host="spark-01")
    results = [
        Result(case=case, number=1, code=0, seconds=4.0, cpu=2.0),
        Result(case=case, number=2, code=2, seconds=6.0, cpu=4.0, wrong=["no cause"]),
    ]
    rows = [Row(**json.loads(Row.of(result, SEED).to_line())) for result in results]
    text = format_tables(rows)
    assert "| fault: `mtu` | 2 | 1 | 1 |" in text
    assert "| up: Serve | 2 |  |  |  | 1 | 1 |" in text
    assert text.endswith("2 runs, 1 unexplained; 3.0 s of CPU and 5 s each")
