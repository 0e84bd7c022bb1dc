"""A container image on a host, and the result of inspecting it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkfleet.model import EMPTY

LOCAL = "localhost/"  # Podman's prefix for images from no registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Result of inspecting an image; `nodes`: its vLLM has `--nnodes`.

    `packages` are versions by distribution name, `programs` the commands on its PATH, `gpus` the
    lines of `nvidia-smi -L`, `nccl_conf` the text of NCCL's files in the image. `options` are
    those of `vllm serve`, `types` how vLLM converts the text of some, `values` the lists that some
    choose from, `variables` the environment variables that vLLM reads; records of older versions of
    sparkfleet have none.
    """

    packages: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    programs: tuple[str, ...] = ()
    nodes: bool = False
    options: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    values: Mapping[str, Collection[str]] = field(default_factory=lambda: EMPTY)
    variables: tuple[str, ...] = ()
    nccl_conf: str = ""
    gpus: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerImage:
    """An image on one host.

    `layers` are digests of its layers' contents, the same under every storage driver, unlike `id`
    (eugr/spark-vllm-docker#327). `key` is a short hash of all layers. `digests` are its digests in
    registries, `environment` the variables baked into it, `program` its default command; `size` is
    in bytes.
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
        """The digest in its registry, or "" for an image that was built or loaded."""
        return self.digests[0].partition("@")[2] if self.digests else ""

    def same_as(self, image: ContainerImage) -> bool:
        """Whether both are the same image, by content, never by id."""
        return self.layers == image.layers or bool({*self.digests} & {*image.digests})


def parse_image(answer: Mapping[str, Any] | None) -> ContainerImage | None:
    """Return the image in the answer of `onhost/deployment/containers.py`, None if absent."""
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
    """Return the result of `onhost/deployment/probe.py`, None if not inspected yet."""
    if answer is None:
        return None
    return Probe(
        packages=answer["packages"],
        programs=tuple(answer["programs"]),
        nodes=answer["nodes"],
        options=tuple(answer.get("options", ())),
        types=answer.get("types", EMPTY),
        values={name: tuple(found) for name, found in answer.get("values", EMPTY).items()},
        variables=tuple(answer.get("variables", ())),
        nccl_conf=answer["nccl_conf"],
        gpus=answer["gpus"],
    )
