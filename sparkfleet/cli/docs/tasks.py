"""`docs`: the pages of the manual, which messages name; offline."""

from __future__ import annotations

from dataclasses import dataclass

from sparkfleet.cli.command import command
from sparkfleet.cli.command_line import is_argument_typed
from sparkfleet.cli.options import Options, option


@dataclass(frozen=True, slots=True, kw_only=True)
class DocsOptions(Options):
    """Options of `docs`."""

    page: str | None = option(
        "the page to print, such as gateway or docs/gateway.md; by default all are listed",
        positional=is_argument_typed("docs", ("--page",)),
        value="[PAGE]",
    )


@command("docs")
def docs(options: DocsOptions) -> int:
    """List the pages of the manual, or print one.

    Messages name pages as docs/PAGE.md. This prints the one that belongs to the installed version.

      {task:docs}
      {task:docs} gateway | less
    """
    from sparkfleet.cli.docs.pages import show_pages

    return show_pages(options.page)
