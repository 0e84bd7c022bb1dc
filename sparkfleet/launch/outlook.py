"""How far each host is from a start: ready, or slow by what has to be moved; pure.

What blocks a host is told by the verdict of the task that refuses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from sparkfleet.launch.images import plan as images
from sparkfleet.launch.survey import Survey
from sparkfleet.quantities import show_size

RATE = 400_000_000  # bytes/s between Sparks by common means: facts, section 6


def outlook(name: str, surveys: Mapping[str, Survey], weights: int) -> str:
    """Return what stands between host `name` and a start, with `weights` bytes to send to it."""
    survey, owner = surveys[name], images.owner(surveys)
    if survey.daemon is not None and owner is None:
        return "slow: an image to pull or build" + (f", {_effort(weights)}" if weights else "")
    wanted = surveys[owner].image if owner else None
    lacks = wanted is not None and images.differs(survey.image, wanted)
    size = weights + (wanted.size if wanted and lacks else 0)
    return f"slow: {_effort(size)}" if size else "ready"


def _effort(size: int) -> str:
    minutes = math.ceil(size / RATE / 60)
    return f"{show_size(size)} to move, about {minutes} min at {show_size(RATE)}/s"
