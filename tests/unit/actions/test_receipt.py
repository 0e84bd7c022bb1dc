"""The receipt of a start."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

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
    )
    launch: Any = SimpleNamespace(deployment=SimpleNamespace(executor="mp", hash="0"), surveys={})
    receipt = _build_receipt(run, launch, cast("list[str]", []))
    assert (receipt["recipe"], receipt["shelf"]) == ("team/small", origin)
