"""C47: a hard power-off; shm_size 64g suspected, which is memory of the GPU too."""

from __future__ import annotations

from typing import Any

from sparkfleet.launch.engines.checks import check_container_engine
from sparkfleet.model import Severity
from tests import gb10
from tests.engines import DOCKER, option, settings, words


def _severity(**variables: Any) -> Severity | None:
    found = check_container_engine(settings(**variables), gb10.pair()[0].facts(), DOCKER)
    return next((one.severity for one in found if one.check == "engine.shm"), None)


def test_more_than_a_quarter_of_the_memory_is_a_warning() -> None:
    assert _severity(engine_shm_size="64g") is Severity.WARNING
    assert _severity(engine_shm_size="16g") is Severity.OK


def test_nothing_is_reserved_by_default() -> None:
    assert _severity() is None
    assert option(words(), "shm-size") == []


def test_it_is_the_recipes_to_set() -> None:
    assert option(words(engine_shm_size="16GiB"), "shm-size") == [str(16 << 30)]
