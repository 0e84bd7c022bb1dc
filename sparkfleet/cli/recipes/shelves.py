"""`recipes.add`, `.update` and `.remove`: recipes of a repository or a folder, pinned here."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from sparkfleet.cli.prompt import confirm
from sparkfleet.cli.recipes.options import AddOptions, RemoveOptions, UpdateOptions
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.screen import create_screen, print_lines
from sparkfleet.command_name import name_command
from sparkfleet.errors import RecipeError, UsageError
from sparkfleet.recipes.shelves.indexing import ShelfIndex
from sparkfleet.recipes.shelves.record import NAME, SHORT, Shelf, list_shelves, load_shelf
from sparkfleet.recipes.shelves.snapshot import Snapshot, iterate_changes, take_snapshot
from sparkfleet.recipes.shelves.store import (
    build_shelf,
    index_snapshot,
    read_files,
    remove_shelf,
    write_shelf,
)
from sparkfleet.report import json
from sparkfleet.report.plurals import format_plural

STYLES = {"+": "green", "-": "red", "@": "cyan"}


def add_shelf(options: AddOptions) -> int:
    """Put the recipes of a source into the project, at its commit of now; runs none of it."""
    name = options.name or _name_source(options.source)
    if not NAME.fullmatch(name):
        hint = "use letters, digits, dots, - and _" if options.name else "add --name NAME"
        raise UsageError(f"{name!r} is not a valid name for a shelf", hint=hint)
    if load_shelf(name) is not None:
        raise UsageError(
            f"shelf {name} already exists", hint=f"type: {name_command('recipes.update')} {name}"
        )
    snapshot = take_snapshot(options.source, options.revision)
    index = index_snapshot(snapshot)
    if not index.recipes:
        raise (
            RecipeError.of(index.problems)
            if index.problems
            else RecipeError(
                f"{options.source} has no recipes", hint="expected .yml or .yaml files"
            )
        )
    empty = Shelf(
        name=name, source=options.source, commit="", revision=options.revision, recipes={}
    )
    shelf = build_shelf(empty, snapshot, index)
    if not options.check:
        write_shelf(shelf, snapshot)
    if options.json:
        _print_shelf(shelf, index, changed=[])
    else:
        print_lines(*_format_added(shelf, index, snapshot, check=options.check))
    return 0


def update_shelf(options: UpdateOptions) -> int:
    """Show what changed at the source of a shelf, and take it if the user confirms."""
    shelf = _find_shelf(options.name)
    if options.revision:
        shelf = replace(shelf, revision=options.revision)
    stays = f"shelf {shelf.name} stays at {shelf.commit[:SHORT]}, and its recipes work without git"
    snapshot = take_snapshot(shelf.source, shelf.revision, otherwise=stays)
    before = read_files(shelf)
    changed = list(iterate_changes(before, snapshot.files))
    index = index_snapshot(snapshot)
    updated = build_shelf(shelf, snapshot, index)
    if not options.json:
        _show_changes(shelf, updated, before, snapshot.files)
    if not _may_change(options, len(changed)):
        raise UsageError(
            f"not confirmed: {format_plural(len(changed), 'file')} of shelf {shelf.name} changed",
            hint="review the difference above, then add --yes",
        )
    if not options.check:
        write_shelf(updated, snapshot)
    if options.json:
        _print_shelf(updated, index, changed=changed)
    return 0


def _may_change(options: UpdateOptions, count: int) -> bool:
    if not count or options.yes or options.check:
        return True
    return not options.json and confirm(f"accept {format_plural(count, 'changed file')}?")


def drop_shelf(options: RemoveOptions) -> int:
    """Remove a shelf from the project."""
    shelf = _find_shelf(options.name)
    remove_shelf(shelf)
    print_lines(f"removed: {shelf.origin}, {format_plural(len(shelf.recipes), 'recipe')}")
    return 0


def _name_source(source: str) -> str:
    """Return the last part of an address or a path, without .git."""
    last = re.split(r"[/:]", source.rstrip("/"))[-1]
    return last.removesuffix(".git")


def _find_shelf(name: str) -> Shelf:
    shelf = load_shelf(name)
    if shelf is None:
        names = ", ".join(other.name for other in list_shelves())
        raise UsageError(f"shelf {name!r} not found", hint=f"shelves: {names or 'none'}")
    return shelf


def _format_added(
    shelf: Shelf, index: ShelfIndex, snapshot: Snapshot, *, check: bool
) -> Iterator[str]:
    done = "would be added" if check else "added"
    count = format_plural(len(shelf.recipes), "recipe")
    yield f"{done}: {shelf.origin}, {count}, in {shelf.folder}"
    for name in shelf.recipes:
        yield f"  {shelf.name}/{name}"
    mods = sorted({str(PurePosixPath(file).parent) for file in snapshot.files if _is_mod(file)})
    if mods:
        yield "mods, which are shown before a start and run as root in the image:"
        yield from (f"  {mod}" for mod in mods)
    yield from (f"not usable: {problem}" for problem in index.problems)
    yield f"next: {name_command('recipes.show')} {shelf.name}/{next(iter(shelf.recipes))}"


def _is_mod(file: str) -> bool:
    return file.endswith("/run.sh")


def _show_changes(
    before: Shelf, after: Shelf, files: Mapping[str, bytes], news: Mapping[str, bytes]
) -> None:
    out = create_screen(sys.stdout)
    changed = list(iterate_changes(files, news))
    if not changed:
        out.line(f"nothing changed: {after.origin}")
        return
    out.line(f"{before.name}: {before.commit[:SHORT]} -> {after.commit[:SHORT]}", "bold")
    for name in changed:
        old, new = (_decode_lines(content.get(name)) for content in (files, news))
        for line in difflib.unified_diff(old, new, f"old/{name}", f"new/{name}", lineterm=""):
            out.line(line, STYLES.get(line[:1], ""))
    for name in sorted(after.recipes.keys() - before.recipes.keys()):
        out.line(f"new: {after.name}/{name}")
    for name in sorted(before.recipes.keys() - after.recipes.keys()):
        out.line(f"removed: {after.name}/{name}")


def _decode_lines(content: bytes | None) -> list[str]:
    return [] if content is None else content.decode("utf-8", "replace").splitlines()


def _print_shelf(shelf: Shelf, index: ShelfIndex, *, changed: list[str]) -> None:
    print_document(
        shelf=shelf.name,
        source=shelf.source,
        commit=shelf.commit,
        recipes=[f"{shelf.name}/{name}" for name in shelf.recipes],
        changed=changed,
        errors=[json.serialize_problem(problem) for problem in index.problems],
    )
