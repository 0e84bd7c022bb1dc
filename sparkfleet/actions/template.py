"""`template`: a file rendered with each host's variables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sparkfleet.actions.action import arg
from sparkfleet.actions.placing import Placing, PlacingArgs, source
from sparkfleet.actions.scene import Scene
from sparkfleet.templating import render_file


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateArgs(PlacingArgs):
    """The arguments of `template`."""

    src: str = arg("Jinja template on this machine: in templates/, or beside the playbook")


class Template(Placing[TemplateArgs]):
    """Render a template and put it on the host. Undo restores what was there."""

    name = "template"
    args_type = TemplateArgs

    def content(self, scene: Scene, host: str) -> bytes:
        """Render it with the host's variables."""
        path = source("templates", self.args[host].src, self.where)
        return render_file(path, scene.variables[host]).encode()

    def file_name(self, host: str) -> str:
        """Keep the name of the template, less ``.j2``."""
        return Path(self.args[host].src).name.removesuffix(".j2")
