"""The purpose of a playbook follows from its actions: a start needs a recipe, a stop does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkfleet.playbook.assignment import (
    replaces_deployment,
    starts_deployment,
    stops_deployment,
)
from sparkfleet.playbook.parse import load_playbook
from sparkfleet.playbook.vocabulary import ACTIONS

SHIPPED = Path(__file__).parents[3] / "playbooks"


@pytest.mark.parametrize(
    ("name", "starts", "replaces", "stops"),
    [
        ("cluster-up", True, True, False),
        ("cluster-drift", True, False, False),
        ("weights-stage", True, False, False),
        ("cluster-down", False, False, True),
        ("hosts-prepare", False, False, False),
    ],
)
def test_a_shipped_playbook_needs_a_recipe_only_to_start_or_compare(
    name: str, starts: bool, replaces: bool, stops: bool
) -> None:
    plays = load_playbook(SHIPPED / f"{name}.yml")
    assert starts_deployment(plays) is starts
    assert replaces_deployment(plays) is replaces
    assert stops_deployment(plays) is stops


def test_the_actions_that_need_a_recipe_say_so() -> None:
    assert {name for name in ACTIONS if ACTIONS[name].needs_recipe} == {
        *("preflight", "image", "stage_weights", "render", "serve", "smoke"),
    }
