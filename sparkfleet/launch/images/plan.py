"""Plan how every host gets the image; pure.

First one host acquires it, then it is distributed to all. An image with additional packages is
built once, on one host, since two builds are never identical.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sparkfleet.launch.host.image import ContainerImage
from sparkfleet.launch.host.survey import Survey
from sparkfleet.model import Verdict
from sparkfleet.quantities import format_size
from sparkfleet.recipes.settings import Settings
from sparkfleet.verdicts import error

LOAD_NEEDS = 2  # times the size: an engine unpacks an image in addition to its own copy
SAVE_NEEDS = 1  # times the size: overlay2 writes a temporary copy to save an image
STREAMING = "overlayfs"  # storage driver of the containerd image store, which saves as a stream


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


def check_missing_images(
    surveys: Mapping[str, Survey], settings: Mapping[str, Settings]
) -> Iterator[Verdict]:
    """Yield errors for missing images with engine_image_source: none."""
    head = next(iter(surveys))
    way = settings[head].text("engine_image_source")
    for name, survey in surveys.items():
        if way != "none" or survey.image or survey.base:
            continue
        image = settings[name].text("engine_image")
        yield error(
            "image.present",
            name,
            image,
            expected="the image on this host (engine_image_source is none)",
            seen="no image",
            source=str(settings[name].origin("engine_image")),
            fix=f"on that host: {survey.daemon.cli if survey.daemon else 'docker'} pull {image}, "
            "or set engine_image_source: copy",
        )


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
    """Whether a host lacks the target image or has a different one."""
    return image is None or (target is not None and not image.same_as(target))


def check_unequal_images(
    surveys: Mapping[str, Survey], settings: Mapping[str, Settings]
) -> Iterator[Verdict]:
    """Yield errors for hosts whose image differs from the first one and is not copied."""
    source = find_image_owner(surveys)
    plans = plan_distribution(surveys, settings)
    for name, survey in surveys.items():
        if (
            source is None
            or plans[name].source
            or not is_different_image(survey.image, surveys[source].image)
        ):
            continue
        yield error(
            "image.same",
            name,
            survey.image_name or settings[name].text("engine_image"),
            expected=f"{_format_image_digest(surveys[source].image)}, as on {source}",
            seen=_format_image_digest(survey.image),
            source="RepoDigests and RootFS.Layers",
            fix="pin it by digest, NAME@sha256:..., or set engine_image_source: copy",
        )


def _format_image_digest(image: ContainerImage | None) -> str:
    return "no image" if image is None else image.digest or f"layers {image.key}"


def check_image_space(
    surveys: Mapping[str, Survey], plans: Mapping[str, DistributePlan]
) -> Iterator[Verdict]:
    """Yield errors for hosts without disk space for a copy, at either end."""
    sources = {plan.source for plan in plans.values() if plan.source}
    for source in sources:
        yield from _check_engine_storage(surveys[source], source, surveys[source].image, SAVE_NEEDS)
        for name, plan in plans.items():
            if plan.source == source:
                yield from _check_engine_storage(
                    surveys[name], name, surveys[source].image, LOAD_NEEDS
                )


def _check_engine_storage(
    survey: Survey, name: str, image: ContainerImage | None, times: int
) -> Iterator[Verdict]:
    daemon = survey.daemon
    if image is None or daemon is None or daemon.free is None:
        return
    if times == SAVE_NEEDS and daemon.storage == STREAMING:
        return
    needed = times * image.size
    if daemon.free >= needed:
        return
    yield error(
        "image.space",
        name,
        daemon.root,
        expected=f"{format_size(needed)} free to copy {image.name}",
        seen=f"{format_size(daemon.free)} free",
        source=f"{daemon.cli} info, statvfs",
        fix=f"on that host: {daemon.cli} image prune; usage: {daemon.cli} system df",
    )


def render_dockerfile(base: str, packages: Sequence[str]) -> str:
    """Return a Dockerfile that adds `packages` to `base`, in exec form, which avoids a shell."""
    argv = ["python3", "-m", "pip", "install", "--no-cache-dir", *packages]
    return f"FROM {base}\nRUN {json.dumps(['env', 'PIP_BREAK_SYSTEM_PACKAGES=1', *argv])}\n"
