"""`recipes.export`: a recipe in the format of another tool."""

from __future__ import annotations

import sys

from sparkfleet.cli.recipes.options import ExportOptions
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.screen import create_screen
from sparkfleet.recipes.foreign.export import export_recipe
from sparkfleet.recipes.foreign.formats import Format
from sparkfleet.recipes.recipe import load_recipe


def show_export(options: ExportOptions) -> int:
    """Print the document on standard output, and what is left out on standard error."""
    export = export_recipe(load_recipe(options.recipe), Format(options.to))
    if options.json:
        print_document(format=options.to, text=export.text, left_out=export.left_out)
        return 0
    out = create_screen(sys.stdout)
    for line in export.text.splitlines():
        out.line(line)
    errors = create_screen(sys.stderr)
    for text in export.left_out:
        errors.line(f"left out: {text}", "yellow")
    return 0
