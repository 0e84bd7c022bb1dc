"""Plan how every host gets the image; pure.

First one host acquires it, then it is distributed to all. An image with additional packages is
built once, on one host, since two builds are never identical.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkfleet.launch.host.image import ContainerImage
from sparkfleet.launch.host.survey import Survey
from sparkfleet.recipes.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class AcquirePlan:
    """Steps of one host to acquire the image."""

    pull: bool = False
    build: bool = False

    @property
    def needed(self) -> bool:
        """Whether there is anything to do."""
        return self.pull or self.build


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributePlan:
    """Steps of one host to get the common image: copy it from `source`, inspect it."""

    source: str = ""
    probe: bool = False


def plan_acquisition(
    surveys: Mapping[str, Survey], settings: Mapping[str, Settings]
) -> dict[str, AcquirePlan]:
    """Return how each host acquires the image; hosts are in rank order."""
    head = next(iter(surveys))
    way = settings[head].text("engine_image_source")
    owners = [name for name, survey in surveys.items() if survey.base]
    derived = [name for name, survey in surveys.items() if survey.image]
    builder = (owners or [head])[0]
    wants_build = bool(settings[head].value("engine_pip")) and not derived
    return {
        name: AcquirePlan(
            pull=survey.base is None
            and (way == "pull" or (way == "copy" and not owners and name == head)),
            build=wants_build and name == builder,
        )
        for name, survey in surveys.items()
    }


def plan_distribution(
    surveys: Mapping[str, Survey], settings: Mapping[str, Settings]
) -> dict[str, DistributePlan]:
    """Return the steps of each host once one has the image."""
    head = next(iter(surveys))
    copies = settings[head].text("engine_image_source") == "copy" or bool(
        settings[head].value("engine_pip")
    )
    source = find_image_owner(surveys)
    plans = {}
    for name, survey in surveys.items():
        lacks = source is not None and is_different_image(survey.image, surveys[source].image)
        plans[name] = DistributePlan(
            source=source if source and lacks and copies else "",
            probe=lacks or survey.image is None or survey.image.probe is None,
        )
    return plans


def find_image_owner(surveys: Mapping[str, Survey]) -> str | None:
    """Return the first host, in rank order, that has the image to run."""
    return next((name for name, survey in surveys.items() if survey.image), None)


def is_different_image(image: ContainerImage | None, target: ContainerImage | None) -> bool:
    """Return whether a host lacks the target image or has a different one."""
    return image is None or (target is not None and not image.same_as(target))


def render_dockerfile(base: str, packages: Sequence[str]) -> str:
    """Return a Dockerfile that adds `packages` to `base`, in exec form, which avoids a shell."""
    argv = ["python3", "-m", "pip", "install", "--no-cache-dir", *packages]
    return f"FROM {base}\nRUN {json.dumps(['env', 'PIP_BREAK_SYSTEM_PACKAGES=1', *argv])}\n"
