"""`template`: a file rendered with each host's variables."""

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

    src: str = arg("Jinja template on this machine: in templates/, or beside the playbook")


class Template(BaseCopy[TemplateArgs]):
    """Render a template and put it on the host. Undo restores what was there."""

    name = "template"
    args_type = TemplateArgs

    def content(self, run: RunContext, host: str) -> bytes:
        """Render it with the host's variables."""
        path = find_local_file("templates", self.args[host].src, self.where)
        return render_file(path, run.variables[host]).encode()

    def file_name(self, host: str) -> str:
        """Keep the name of the template, less ``.j2``."""
        return Path(self.args[host].src).name.removesuffix(".j2")
