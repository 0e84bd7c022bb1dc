"""`template`: write a file rendered with each host's variables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sparkfleet.actions.action import arg
from sparkfleet.actions.builtin.base_copy import BaseCopy, BaseCopyArgs, find_local_file
from sparkfleet.actions.run_context import RunContext
from sparkfleet.templating import render_file


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateArgs(BaseCopyArgs):
    """The arguments of `template`."""

    src: str = arg("Jinja template on this machine: in templates/, or in the playbook's folder")


class Template(BaseCopy[TemplateArgs]):
    """Render a template and copy it to the host. Undo restores the old file."""

    name = "template"
    args_type = TemplateArgs

    def content(self, run: RunContext, host: str) -> bytes:
        """Render it with the host's variables."""
        path = find_local_file("templates", self.args[host].src, self.where)
        return render_file(path, run.variables[host]).encode()

    def file_name(self, host: str) -> str:
        """Return the name of the template without ``.j2``."""
        return Path(self.args[host].src).name.removesuffix(".j2")
