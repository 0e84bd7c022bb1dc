"""A container image on a host, and the result of inspecting it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkfleet.model import EMPTY
from sparkfleet.values import (
    convert_count,
    convert_flag,
    convert_list,
    convert_mapping,
    convert_string,
)

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
    """Return the image in the answer of `onhost/deployment/containers.py`, None if absent.

    Raises InvalidValueError or LookupError.
    """
    if not answer or "id" not in answer:
        return None
    texts = {name: convert_string(answer[name]) for name in ("name", "id", "key", "architecture")}
    pairs = (text.partition("=") for text in _convert_texts(answer["environment"]))
    digests = _convert_texts(answer["digests"])
    return ContainerImage(
        **texts,
        layers=_convert_texts(answer["layers"]),
        digests=tuple(digest for digest in digests if not digest.startswith(LOCAL)),
        size=convert_count(answer["size"]),
        environment={name: value for name, _, value in pairs},
        program=_convert_texts(answer["program"]),
        probe=_parse_recorded_probe(answer["probe"]),
    )


def _parse_recorded_probe(answer: Any) -> Probe | None:
    """Return what the host recorded of an inspection; None for a damaged record: inspect again."""
    try:
        return parse_probe(answer)
    except (ValueError, LookupError, TypeError):
        return None


def parse_probe(answer: Mapping[str, Any] | None) -> Probe | None:
    """Return the result of `onhost/deployment/probe.py`, None if not inspected yet.

    Raises InvalidValueError or LookupError.
    """
    if answer is None:
        return None
    packages = convert_mapping(answer["packages"]).items()
    types = convert_mapping(answer.get("types", EMPTY)).items()
    values = convert_mapping(answer.get("values", EMPTY)).items()
    return Probe(
        packages={name: str(version or "") for name, version in packages},  # some have no version
        programs=_convert_texts(answer["programs"]),
        nodes=convert_flag(answer["nodes"], strict=True),
        options=_convert_texts(answer.get("options", [])),
        types={name: convert_string(kind) for name, kind in types},
        values={name: _convert_texts(choices) for name, choices in values},
        variables=_convert_texts(answer.get("variables", [])),
        nccl_conf=convert_string(answer["nccl_conf"]),
        gpus=convert_string(answer["gpus"]),
    )


def _convert_texts(value: Any) -> tuple[str, ...]:
    return tuple(map(convert_string, convert_list(value)))
