"""Pull, build, copy and inspect images on hosts."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any

from sparkfleet.errors import CommandError, HostError
from sparkfleet.launch.host.image import ContainerImage
from sparkfleet.launch.host.survey import Survey, build_image_request, parse_images
from sparkfleet.launch.images.plan import render_dockerfile
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import REPEATS, Connection
from sparkfleet.weights.transfer.routes import Ends
from sparkfleet.weights.transfer.session import ProgramSession

NO_BUILD = "no matching manifest"  # Docker's words for an image without a build for this machine
OTHER_IMAGE = (
    "the image has no build for the processor of that host (arm64 on a Spark): set another in "
    "engine_image, such as vllm/vllm-openai with a CUDA 13 tag"
)
PROBES = "images"  # below cluster_dir: results of inspecting images, by their key


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageProgress:
    """Current step and its progress in layers or `bytes`; a `total` of None is unknown."""

    text: str
    done: int
    total: int | None
    bytes: bool = False


ImageProgressCallback = Callable[[ImageProgress], None]
"""Called repeatedly with the current progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageHost:
    """One host: its connection, its settings and its survey."""

    connection: Connection
    settings: Settings
    survey: Survey

    @property
    def cli(self) -> str:
        """The command of its engine."""
        return self.survey.daemon.cli if self.survey.daemon else "docker"


def inspect_images(host: ImageHost) -> Survey:
    """Return the survey of a host with the current state of its images."""
    request = {
        "do": "images",
        "cluster_dir": host.settings.cluster_dir,
        **build_image_request(host.settings),
    }
    return replace(
        host.survey, **host.connection.query("deployment/containers", request, parse_images)
    )


def pull_image(host: ImageHost, report: ImageProgressCallback) -> None:
    """Pull the image; raises CommandError with the engine's message, and a fix for a known one."""
    request = {"do": "pull", "cli": host.cli, "image": host.settings.needed("engine_image")}

    def report_layers(progress: Any) -> None:
        layers = progress.get("layers") or None
        report(ImageProgress(text="pulling, layers", done=progress.get("done", 0), total=layers))

    try:
        with ProgramSession(host.connection, "deployment/images", request) as work:
            work.answer(report_layers)
    except CommandError as error:
        if NO_BUILD not in error.message:
            raise
        raise CommandError(error.message, host=error.host, hint=OTHER_IMAGE) from error


def build_image(host: ImageHost) -> None:
    """Build the image with `engine_pip`; raises CommandError with the end of pip's output."""
    base = host.settings.needed("engine_image")
    packages = [str(package) for package in host.settings.value("engine_pip")]
    name = inspect_images(host).image_name
    request = {
        "do": "build",
        "cli": host.cli,
        "name": name,
        "file": render_dockerfile(base, packages),
    }
    with ProgramSession(host.connection, "deployment/images", request) as work:
        work.answer()


def copy_image(
    source: ImageHost, target: ImageHost, ends: Ends, report: ImageProgressCallback
) -> None:
    """Stream the image and its base image from one engine to another.

    Raises CommandError for the host where it failed first.
    """
    image = source.survey.image
    assert image is not None  # noqa: S101 - the source is a host that has it
    key = secrets.token_hex(32)
    with ProgramSession(
        source.connection, "deployment/images", _build_send_request(source, ends, key)
    ) as sender:
        port = sender.wait_for_port()
        request = {
            "do": "receive",
            "cli": target.cli,
            "address": ends.sender,
            "port": port,
            "key": key,
            "own": ends.receiver,
        }

        def report_bytes(progress: Any) -> None:
            text = f"copying from {source.connection.host.name}"
            done = progress.get("bytes", 0)
            report(ImageProgress(text=text, done=done, total=image.size or None, bytes=True))

        with ProgramSession(target.connection, "deployment/images", request) as receiver:
            _await_both_ends(sender, receiver, report_bytes)


def repeat_after_loss(
    step: Callable[[], None], target: ImageHost, source: ImageHost | None = None
) -> None:
    """Do a step that copies an image to `target`, and again where a connection broke meanwhile.

    The image is looked for before that: an engine takes it whole or not at all. Raises HostError.
    """
    hosts = (target, source) if source else (target,)
    for _ in range(REPEATS):
        opened = [host.connection.reopened for host in hosts]
        try:
            return step()
        except HostError:
            pairs = zip(hosts, opened, strict=True)
            again = [host.connection.reopen_if_lost(times) for host, times in pairs]
            if True not in again:
                raise
        found = inspect_images(target).image
        if source and source.survey.image and found and found.same_as(source.survey.image):
            return None
    return step()


def _build_send_request(source: ImageHost, ends: Ends, key: str) -> dict[str, Any]:
    survey = source.survey
    names = dict.fromkeys(image.name for image in (survey.base, survey.image) if image)
    one_platform = survey.daemon is not None and survey.daemon.saves_one_platform
    return {
        "do": "send",
        "cli": source.cli,
        "address": ends.sender,
        "peer": ends.receiver,
        "key": key,
        "images": list(names),
        "platform": f"linux/{survey.image.architecture}" if one_platform and survey.image else "",
    }


def _await_both_ends(
    sender: ProgramSession, receiver: ProgramSession, report: Callable[[Any], None]
) -> None:
    """Wait for both ends; a failed save is the reason for an aborted load."""
    try:
        receiver.answer(report)
    except CommandError:
        sender.answer()
        raise
    sender.answer()


def probe_image(host: ImageHost, image: ContainerImage, options: Sequence[str]) -> None:
    """Inspect the image with the options that its containers will have."""
    program = (resources.files("sparkfleet.onhost") / "deployment/probe.py").read_text(
        encoding="utf-8"
    )
    request = {
        "do": "probe",
        "cli": host.cli,
        "image": image.name,
        "options": list(options),
        "program": program,
        "record": f"{host.settings.cluster_dir}/{PROBES}/{image.key}.json",
    }
    with ProgramSession(host.connection, "deployment/images", request) as work:
        work.answer()
