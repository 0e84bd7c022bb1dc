"""Two runs of the campaign; `python -m tests.campaign` does more."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.campaign.__main__ import format_table, open_cluster, run_campaign
from tests.campaign.cases import choose_cases
from tests.standin.cluster import Cluster

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]
SEED = 1
FEW, MANY = 2, 300
HOUR = 60.0  # minutes


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", os.environ.get("XDG_STATE_HOME", "/tmp"))
        with open_cluster() as opened:
            yield opened


@pytest.mark.parametrize(
    "runs",
    [
        pytest.param(FEW, id="few", marks=pytest.mark.timeout(1200)),
        pytest.param(MANY, id="many", marks=[pytest.mark.thorough, pytest.mark.timeout(7200)]),
    ],
)
def test_every_run_of_the_campaign_is_explained(cluster: Cluster, runs: int) -> None:
    results = list(run_campaign(cluster, seed=SEED, runs=runs, minutes=HOUR))
    unexplained = {str(result.case): result.wrong for result in results if result.wrong}
    assert unexplained == {}, format_table(results)


def test_each_kind_takes_its_turn() -> None:
    kinds = {case.kind for case in choose_cases(SEED, 4)}
    assert kinds == {"fault", "signal", "odd host", "operators"}
