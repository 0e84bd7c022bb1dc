"""`copy`: write a file of the control machine, or given content, on every host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sparkfleet.actions.action import arg
from sparkfleet.actions.builtin.base_copy import BaseCopy, BaseCopyArgs, find_local_file
from sparkfleet.actions.run_context import RunContext


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyArgs(BaseCopyArgs):
    """The arguments of `copy`."""

    src: str = arg("file on this machine: in files/, or in the playbook's folder", default="")
    content: str | None = arg("the content itself, instead of src", default=None)


class Copy(BaseCopy[CopyArgs]):
    """Copy a file of this machine, or given content, to the host. Undo restores the old file."""

    name = "copy"
    args_type = CopyArgs

    @classmethod
    def validate_args(cls, args: CopyArgs) -> Iterator[str]:
        """Require exactly one source."""
        yield from super().validate_args(args)
        if bool(args.src) == (args.content is not None):
            yield "requires either src or content"

    def content(self, run: RunContext, host: str) -> bytes:
        """Read the file, or use the given content."""
        args = self.args[host]
        if args.content is not None:
            return args.content.encode()
        return find_local_file("files", args.src, self.where).read_bytes()

    def file_name(self, host: str) -> str:
        """Return the name of the file; given content has none."""
        return Path(self.args[host].src).name
