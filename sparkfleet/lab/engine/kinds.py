"""The two engines of the lab: vLLM on the CPU, and vLLM on real GPUs; each has a lock file."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from sparkfleet.lab.paths import CACHE

MARKED = re.compile(r"^([^#\s=]+)==\S+\s+#\s*(optional|shared)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineKind:
    """An engine: its lock file, and the bytes on disk that it takes, at rest and while it is made.

    `plugin`: it gets our platform plugin, by which Ray places vLLM's CPU workers.
    """

    prefix: str
    lock_file: str
    what: str
    task: str
    size: int
    space: int
    plugin: bool

    def read_lock(self) -> str:
        """Return the text of the lock file."""
        return (resources.files("sparkfleet.lab.engine") / self.lock_file).read_text()

    def venv_path(self) -> Path:
        """Return where the engine of this lock lives, installed or not."""
        return CACHE / f"{self.prefix}-{hash_text(self.read_lock())[:12]}"

    def list_marked(self, mark: str) -> frozenset[str]:
        """Return the packages that the lock marks so.

        Without the "optional" ones vLLM runs too, with kernels of its own. Of the "shared" ones any
        release will do, where the environment of a torch has one.
        """
        return frozenset(name for name, of in MARKED.findall(self.read_lock()) if of == mark)


CPU = EngineKind(
    prefix="engine",
    lock_file="engine-lock.txt",
    what="vLLM, Ray and torch for the CPU",
    task="lab.engine",
    size=2_700_000_000,
    space=4_500_000_000,
    plugin=True,
)
GPU = EngineKind(
    prefix="engine-gpu",
    lock_file="engine-gpu-lock.txt",
    what="vLLM, Ray and torch for CUDA 13",
    task="lab.engine --gpu",
    size=8_800_000_000,
    space=12_000_000_000,
    plugin=False,
)


def hash_text(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()
