"""The answer of a host on which nothing of sparkfleet runs, to vary in a test."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sparkfleet.launch.host.survey import Survey

IDLE = Survey(
    home="/home/nvidia",
    folder="/home/nvidia/vllm/.sparkfleet/default",
    files={},
    hash=None,
    roles={},
    dead=(),
    processes=(),
    engine=None,
)


def make_survey(**changes: Any) -> Survey:
    """Return `IDLE` with other values of some fields."""
    return replace(IDLE, **changes)
