"""Bringing images to hosts, and looking inside them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any

from sparkfleet.errors import CommandError
from sparkfleet.launch.images.image import Image
from sparkfleet.launch.images.plan import build_file
from sparkfleet.launch.survey import Survey, images_wanted, parse_images
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.link import Link
from sparkfleet.weights.conversation import Conversation
from sparkfleet.weights.routes import Ends

PROBES = "images"  # below cluster_dir: what was found in images, by their key


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What is done now, and how much of it of how much: layers or `bytes`; None: nobody knows."""

    text: str
    done: int
    total: int | None
    bytes: bool = False


Tell = Callable[[Step], None]
"""Takes how far it is, again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One host: the way to it, its settings, and what is known of it."""

    link: Link
    settings: Settings
    survey: Survey

    @property
    def cli(self) -> str:
        """The command of its engine."""
        return self.survey.daemon.cli if self.survey.daemon else "docker"


def look(node: Node) -> Survey:
    """Return the survey of a host with its images as they are now."""
    request = {
        "do": "images",
        "cluster_dir": node.settings.cluster_dir,
        **images_wanted(node.settings),
    }
    return replace(node.survey, **parse_images(node.link.ask("containers", request)))


def pull(node: Node, tell: Tell) -> None:
    """Pull the image; raises CommandError with what the engine said."""
    request = {"do": "pull", "cli": node.cli, "image": node.settings.needed("engine_image")}

    def told(progress: Any) -> None:
        layers = progress.get("layers") or None
        tell(Step(text="pulling, layers", done=progress.get("done", 0), total=layers))

    with Conversation(node.link, "images", request) as work:
        work.answer(told)


def build(node: Node) -> None:
    """Build the image with `engine_pip`; raises CommandError with the end of pip's words."""
    base = node.settings.needed("engine_image")
    packages = [str(package) for package in node.settings.value("engine_pip")]
    name = look(node).image_name
    request = {"do": "build", "cli": node.cli, "name": name, "file": build_file(base, packages)}
    with Conversation(node.link, "images", request) as work:
        work.answer()


def copy(source: Node, target: Node, ends: Ends, tell: Tell) -> None:
    """Stream the image, and the one that it is derived from, from one engine into another.

    Raises CommandError of the host where it failed first.
    """
    image = source.survey.image
    assert image is not None  # noqa: S101 - the source is a host that has it
    key = secrets.token_hex(32)
    with Conversation(source.link, "images", _offer(source, ends, key)) as sender:
        said = next(sender.progress(), None)
        if said is None:
            sender.answer()
            raise CommandError("the sender ended before it began", host=source.link.host.name)
        request = {
            "do": "receive",
            "cli": target.cli,
            "address": ends.sender,
            "port": said["port"],
            "key": key,
            "own": ends.receiver,
        }

        def told(progress: Any) -> None:
            text, done = f"copying from {source.link.host.name}", progress.get("bytes", 0)
            tell(Step(text=text, done=done, total=image.size or None, bytes=True))

        with Conversation(target.link, "images", request) as receiver:
            _both(sender, receiver, told)


def _offer(source: Node, ends: Ends, key: str) -> dict[str, Any]:
    survey = source.survey
    names = dict.fromkeys(one.name for one in (survey.base, survey.image) if one)
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


def _both(sender: Conversation, receiver: Conversation, told: Callable[[Any], None]) -> None:
    """Listen to both ends; a load that broke off is explained by the save that failed."""
    try:
        receiver.answer(told)
    except CommandError:
        sender.answer()
        raise
    sender.answer()


def probe(node: Node, image: Image, options: Sequence[str]) -> None:
    """Look inside the image, with the options that its containers will have."""
    program = (resources.files("sparkfleet.onhost") / "probe.py").read_text(encoding="utf-8")
    request = {
        "do": "probe",
        "cli": node.cli,
        "image": image.name,
        "options": list(options),
        "program": program,
        "record": f"{node.settings.cluster_dir}/{PROBES}/{image.key}.json",
    }
    with Conversation(node.link, "images", request) as work:
        work.answer()
