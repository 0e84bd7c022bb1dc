"""Python distributions in an environment: check that one is whole, and install a small one."""

from __future__ import annotations

import base64
import csv
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

_NO_FILES: Mapping[str, bytes] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """A distribution by name and version, with its modules by path below site-packages."""

    name: str
    version: str
    summary: str = ""
    modules: Mapping[str, bytes] = field(default_factory=lambda: _NO_FILES)
    entry_points: str = ""

    @property
    def folder(self) -> str:
        """The name of its metadata folder."""
        return f"{re.sub(r'[-.]+', '_', self.name)}-{self.version}.dist-info"


def parse_pins(lock: str) -> list[tuple[str, str]]:
    """Return the (name, version) pairs of a lock file's lines ``name==version``."""
    lines = (line.partition("#")[0].strip() for line in lock.splitlines())
    return [
        (name, version) for name, _, version in (line.partition("==") for line in lines) if name
    ]


def find_incomplete(site: Path, pins: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return those of `pins` that are not in `site`, or lack a file that they installed.

    pip writes RECORD last, so a distribution without one was interrupted. Bytecode does not
    count: a few wheels bring some, and it may since have been compiled anew.
    """
    there = {
        _normalize_pin(*folder.stem.rpartition("-")[::2]): folder for folder in _find_metadata(site)
    }
    return [pin for pin in pins if not _has_all_files(site, there.get(_normalize_pin(*pin)))]


def write_distribution(site: Path, distribution: Distribution) -> None:
    """Write a distribution into `site` as an installer would, without a build."""
    files = dict(distribution.modules)
    metadata = (
        f"Metadata-Version: 2.1\nName: {distribution.name}\nVersion: {distribution.version}\n"
    )
    files[f"{distribution.folder}/METADATA"] = (
        f"{metadata}Summary: {distribution.summary}\n".encode()
    )
    files[f"{distribution.folder}/INSTALLER"] = b"sparkfleet\n"
    if distribution.entry_points:
        files[f"{distribution.folder}/entry_points.txt"] = distribution.entry_points.encode()
    record = "".join(f"{path},{_record_digest(data)},{len(data)}\n" for path, data in files.items())
    files[f"{distribution.folder}/RECORD"] = f"{record}{distribution.folder}/RECORD,,\n".encode()
    for path, data in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_bytes(data)


def _find_metadata(site: Path) -> Iterator[Path]:
    return site.glob("*.dist-info")


def _normalize_pin(name: str, version: str) -> tuple[str, str]:
    return re.sub(r"[-_.]+", "-", name).lower(), version


def _has_all_files(site: Path, metadata: Path | None) -> bool:
    record = metadata / "RECORD" if metadata else None
    if record is None or not record.exists():
        return False
    with record.open(newline="", encoding="utf-8") as lines:
        sized = [(path, int(size)) for path, _, size in csv.reader(lines)
                 if size and not path.endswith(".pyc")]  # fmt: skip
    return all(_has_size(site / path, size) for path, size in sized)


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except OSError:
        return False


def _record_digest(data: bytes) -> str:
    code = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
    return f"sha256={code.decode().rstrip('=')}"
