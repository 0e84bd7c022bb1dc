"""C46: a host wedged while profiling, with 22 GiB available, on kernel 7.0.0-1019."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkfleet.launch.engines.checks import container_checks
from sparkfleet.model import Severity
from tests import gb10
from tests.engines import DOCKER, option, settings, words


def _warnings(kernel: str, **variables: Any) -> list[str]:
    facts = gb10.pair()[0].facts()
    facts = replace(facts, system=replace(facts.system, kernel=kernel))
    found = container_checks(settings(**variables), facts, DOCKER)
    return [str(one) for one in found if one.severity is Severity.WARNING]


@pytest.mark.parametrize("kernel", ["7.0.0-1019-nvidia", "7.0.0-1019-nvidia-64k"])
def test_that_kernel_is_warned_about(kernel: str) -> None:
    (text,) = _warnings(kernel)
    assert kernel in text
    assert "engine_memory" in text
    assert "SSH is silent while ping answers" in text


@pytest.mark.parametrize("kernel", ["6.17.0-1021-nvidia", "7.0.0-1020-nvidia", ""])
def test_other_kernels_are_not(kernel: str) -> None:
    assert _warnings(kernel) == []


def test_a_cap_is_given_to_every_container_and_ends_the_warning() -> None:
    assert option(words(engine_memory="110GiB"), "memory") == [str(110 << 30)]
    assert _warnings("7.0.0-1019-nvidia", engine_memory="110GiB") == []
