"""The receipt of a start."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from sparkfleet.actions.clock import Moment
from sparkfleet.actions.run.receipt import _build_receipt
from sparkfleet.recipes.recipe import Recipe


def test_the_receipt_names_the_shelf_of_the_recipe() -> None:
    origin = "shelf team at 0123456789ab of ../team.git"
    run: Any = SimpleNamespace(
        run_id="1",
        recipe=Recipe(name="team/small", path=Path("small.yaml"), shelf=origin),
        cluster=SimpleNamespace(name="sparks", hosts=()),
        options=SimpleNamespace(tp=1, pp=1, dp=1, allow_degraded=""),
        given={},
        inventory=SimpleNamespace(sources=()),
        now=Moment(date=datetime(2026, 11, 29, 12, tzinfo=UTC), ticks=0.0),
    )
    launch: Any = SimpleNamespace(deployment=SimpleNamespace(executor="mp", hash="0"), surveys={})
    receipt = _build_receipt(run, launch, cast("list[str]", []))
    assert (receipt["recipe"], receipt["shelf"]) == ("team/small", origin)
    assert receipt["at"] == "2026-11-29T12:00:00+0000"
