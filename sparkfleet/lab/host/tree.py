"""A folder tree as a value: what is in it is decided apart from writing it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

FRESH = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
_NONE: Mapping[str, str] = MappingProxyType({})
_USUAL: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTree:
    """Files by relative path, symbolic links with their targets, modes that are not 0644.

    `opaque` names folders that, in an overlay, hide what lower layers have there.
    """

    files: Mapping[str, str]
    links: Mapping[str, str] = field(default_factory=lambda: _NONE)
    modes: Mapping[str, int] = field(default_factory=lambda: _USUAL)
    opaque: tuple[str, ...] = ()

    def write(self, root: Path) -> None:
        """Write the tree below folder `root`, as an overlay's upper layer for `opaque`."""
        for parent in {(root / path).parent for path in (*self.files, *self.links)}:
            parent.mkdir(parents=True, exist_ok=True)
        for path, text in self.files.items():
            mode = self.modes.get(path, 0o644)
            with os.fdopen(os.open(root / path, FRESH, mode), "w", encoding="utf-8") as file:
                file.write(text)
        for path, target in self.links.items():
            (root / path).symlink_to(target)
        for folder in self.opaque:
            os.setxattr(root / folder, "trusted.overlay.opaque", b"y")
