"""How far each host is from a start: ready, or slow by what has to be moved; pure.

What blocks a host is told by the verdict of the task that refuses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from sparkfleet.launch.host.survey import Survey
from sparkfleet.launch.images import plan as images
from sparkfleet.quantities import format_size

RATE = 400_000_000  # bytes/s between Sparks by common means: facts, section 6


def format_time_to_ready(name: str, surveys: Mapping[str, Survey], weights: int) -> str:
    """Return what stands between host `name` and a start, with `weights` bytes to send to it."""
    survey, owner = surveys[name], images.find_image_owner(surveys)
    if survey.daemon is not None and owner is None:
        return "slow: an image to pull or build" + (
            f", {_format_transfer_time(weights)}" if weights else ""
        )
    image = surveys[owner].image if owner else None
    lacks = image is not None and images.is_different_image(survey.image, image)
    size = weights + (image.size if image and lacks else 0)
    return f"slow: {_format_transfer_time(size)}" if size else "ready"


def _format_transfer_time(size: int) -> str:
    minutes = math.ceil(size / RATE / 60)
    return f"{format_size(size)} to move, about {minutes} min at {format_size(RATE)}/s"
