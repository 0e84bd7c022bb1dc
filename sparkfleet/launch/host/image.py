"""An image as a host's engine knows it, and what was found inside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkfleet.model import EMPTY

LOCAL = "localhost/"  # as Podman calls what came from no registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What a look inside an image found; `nodes` tells that vLLM has `--nnodes`.

    `packages` are versions by distribution name, `programs` the commands that its PATH finds,
    `gpus` the lines of `nvidia-smi -L`, `nccl_conf` the text of NCCL's files in the image.
    `options` are those of `vllm serve`, `variables` those of the environment that vLLM reads;
    both are empty where a sparkfleet that did not look for them yet has kept its record.
    """

    packages: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    programs: tuple[str, ...] = ()
    nodes: bool = False
    options: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    nccl_conf: str = ""
    gpus: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerImage:
    """An image on one host.

    `layers` are digests of its layers' contents, the same under every storage driver; `id` is not
    (failure 20). `key` is short for all layers. `digests` are those under which registries know
    it, `environment` what it bakes into every container, `program` what it runs if nothing else is
    asked for; `size` is in bytes.
    """

    name: str
    id: str
    key: str
    layers: tuple[str, ...]
    digests: tuple[str, ...] = ()
    size: int = 0
    environment: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    architecture: str = ""
    program: tuple[str, ...] = ()
    probe: Probe | None = None

    @property
    def digest(self) -> str:
        """The digest that a registry gave it, or "" for one that was built or loaded."""
        return self.digests[0].partition("@")[2] if self.digests else ""

    def same_as(self, image: ContainerImage) -> bool:
        """Whether both are one image, by what they hold; never by id."""
        return self.layers == image.layers or bool({*self.digests} & {*image.digests})


def parse_image(answer: Mapping[str, Any] | None) -> ContainerImage | None:
    """Return the image in the answer of `onhost/containers.py`, None where it is absent."""
    if not answer or "id" not in answer:
        return None
    pairs = (text.partition("=") for text in answer["environment"])
    return ContainerImage(
        name=answer["name"],
        id=answer["id"],
        key=answer["key"],
        layers=tuple(answer["layers"]),
        digests=tuple(digest for digest in answer["digests"] if not digest.startswith(LOCAL)),
        size=answer["size"],
        environment={name: value for name, _, value in pairs},
        architecture=answer["architecture"],
        program=tuple(answer["program"]),
        probe=parse_probe(answer["probe"]),
    )


def parse_probe(answer: Mapping[str, Any] | None) -> Probe | None:
    """Return what `onhost/probe.py` found, None where nobody looked yet."""
    if answer is None:
        return None
    return Probe(
        packages=answer["packages"],
        programs=tuple(answer["programs"]),
        nodes=answer["nodes"],
        options=tuple(answer.get("options", ())),
        variables=tuple(answer.get("variables", ())),
        nccl_conf=answer["nccl_conf"],
        gpus=answer["gpus"],
    )
