"""Facts about images that the documents give, by name."""

from __future__ import annotations

import re
from dataclasses import dataclass

OPENAI = "vllm/vllm-openai"
NGC = "nvcr.io/nvidia/vllm"
COMMUNITY = "eugr/spark-vllm"
COMMUNITY_B12X = "eugr/spark-vllm-b12x"
MXFP4 = "sparkarena/spark-vllm-docker"
# Options of forks of vLLM, by image (eugr/spark-vllm-docker, README of 2026-09-15).
FORK_OPTIONS = {
    COMMUNITY_B12X: ("gdn-decode-kernel",),
    "vllm-node-b12x": ("gdn-decode-kernel",),
    MXFP4: ("mxfp4-backend", "mxfp4-layers"),
    "vllm-node-mxfp4": ("mxfp4-backend", "mxfp4-layers"),
}
# The vLLM of images whose tag does not name it. A version with `.dev0` is one before the release.
VERSIONS = {
    f"{NGC}:25.12-py3": "0.11.1",  # vllm-project/vllm#31424
    f"{NGC}:26.04-py3": "0.19.0",  # guide 6 and 13.1
    f"{NGC}:26.07-py3": "0.24",  # NVIDIA's release notes of the container
    f"{OPENAI}:gemma4": "0.18.2.dev0",  # 52-toks, "The critical flags"
    f"{OPENAI}:gemma4-cu130": "0.19.0.dev0",  # research 2, path A: the day before 0.19.0
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageReference:
    """An image by its name: repository, tag and digest."""

    repository: str = ""
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        return self.repository + (f":{self.tag}" if self.tag else "")

    @property
    def vllm(self) -> str:
        """The vLLM inside, as the tag or a document says; "" where neither does."""
        version = re.match(r"v(\d+(?:\.\d+)+)(?=$|-)", self.tag)
        if self.repository == OPENAI and version:
            return version[1]
        return VERSIONS.get(str(self), "")

    @property
    def moves(self) -> bool:
        """Whether a registry can give another image under this name tomorrow.

        Any tag can be pushed again, that of a version too, so only a digest says no.
        """
        return "/" in self.repository and not self.digest


def parse_image_reference(name: str) -> ImageReference:
    """Return the parts of an image's name; Docker Hub's own prefix is left out."""
    path, _, digest = name.partition("@")
    path = path.removeprefix("docker.io/")
    folder, slash, last = path.rpartition("/")
    last, _, tag = last.partition(":")
    return ImageReference(repository=folder + slash + last, tag=tag, digest=digest)
