"""Estimate of the time until each host can start: ready, or slow due to transfers; pure.

A blocked host is reported by the verdict of the failed check.
"""

from __future__ import annotations

from collections.abc import Mapping

from sparkfleet.launch.host.survey import Survey
from sparkfleet.launch.images.plan import find_image_owner, is_different_image
from sparkfleet.quantities import format_size


def format_time_to_ready(name: str, surveys: Mapping[str, Survey], weights: int) -> str:
    """Return "ready", or why host `name` is slow, with `weights` bytes to send to it."""
    survey = surveys[name]
    owner = find_image_owner(surveys)
    if survey.daemon is not None and owner is None:
        return "slow: an image to pull or build" + (
            f", {format_size(weights)} to move" if weights else ""
        )
    image = surveys[owner].image if owner else None
    lacks = image is not None and is_different_image(survey.image, image)
    size = weights + (image.size if image and lacks else 0)
    return f"slow: {format_size(size)} to move" if size else "ready"
