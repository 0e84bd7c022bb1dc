"""Sources of files that no host has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSource:
    """The Hub as a host downloads from it: the ``resolve`` URL of a commit, and a token."""

    url: str
    token: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSource:
    """A folder of this machine, from which files go out over SSH."""

    folder: Path


WeightsSource = HubSource | FolderSource
