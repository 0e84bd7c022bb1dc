"""The pages of the manual, in the wheel and in a checkout."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from sparkfleet.cli.views.screen import create_screen
from sparkfleet.command_name import name_command
from sparkfleet.errors import UsageError
from sparkfleet.resources import list_shipped_files
from sparkfleet.spelling import suggest_similar

FOLDER = "docs"
SUFFIX = ".md"


def show_pages(page: str | None) -> int:
    """Print one page, or the list of all; raises UsageError for a page that does not exist."""
    pages = list_pages()
    lines = _list_titles(pages) if page is None else _read_lines(find_page(page, pages))
    out = create_screen(sys.stdout)
    for line in lines:
        out.line(line)
    return 0


def list_pages() -> Mapping[str, Path]:
    """Return the pages by name, in alphabetical order."""
    return list_shipped_files(FOLDER, SUFFIX)


def find_page(typed: str, pages: Mapping[str, Path]) -> Path:
    """Return the file of a page: ``gateway``, ``gateway.md`` or ``docs/gateway.md``."""
    name = typed.partition("#")[0].removeprefix(f"{FOLDER}/").removesuffix(SUFFIX)
    if name not in pages:
        hint = suggest_similar(name, pages, lister=name_command("docs"))
        raise UsageError(f"page {name!r} not found", hint=hint)
    return pages[name]


def _read_lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield line.rstrip("\n")


def _list_titles(pages: Mapping[str, Path]) -> Iterator[str]:
    width = max(map(len, pages), default=0)
    for name, path in pages.items():
        with path.open(encoding="utf-8") as file:
            title = file.readline().removeprefix("# ").strip()
        yield f"{name:<{width}}  {title}"
    yield f"to read one: {name_command('docs')} {next(iter(pages), 'PAGE')}"
