"""`copy`: a file of the control machine, or a text, on every host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sparkfleet.actions.action import arg
from sparkfleet.actions.placing import Placing, PlacingArgs, source
from sparkfleet.actions.scene import Scene


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyArgs(PlacingArgs):
    """The arguments of `copy`."""

    src: str = arg("file on this machine: in files/, or beside the playbook", default="")
    content: str | None = arg("the text itself, instead of src", default=None)


class Copy(Placing[CopyArgs]):
    """Put a file of this machine, or a text, on the host. Undo restores what was there."""

    name = "copy"
    args_type = CopyArgs

    @classmethod
    def faults(cls, args: CopyArgs) -> Iterator[str]:
        """Want exactly one source."""
        yield from super().faults(args)
        if bool(args.src) == (args.content is not None):
            yield "needs either src or content"

    def content(self, scene: Scene, host: str) -> bytes:
        """Read the file, or take the text."""
        args = self.args[host]
        if args.content is not None:
            return args.content.encode()
        return source("files", args.src, self.where).read_bytes()

    def file_name(self, host: str) -> str:
        """Keep the name of the file; a text has none."""
        return Path(self.args[host].src).name
