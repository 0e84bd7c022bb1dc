"""A recipe: everything needed to serve one model, as variables in one YAML file.

As well as the variables, which an inventory can override, it has facts about the model, required
versions, expected log lines, published speeds, and a reason for every unusual value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from packaging.specifiers import SpecifierSet

from sparkfleet.errors import RecipeError, Where
from sparkfleet.model import EMPTY, Value
from sparkfleet.recipes import schema
from sparkfleet.recipes.extends import (
    FOLDER,
    SUFFIXES,
    load_chain,
    locate_recipe,
    merge_chain,
)
from sparkfleet.recipes.foreign.draft import ConvertedMap
from sparkfleet.recipes.metadata import Checkpoint, LogLines, SmokePrompt, Speed
from sparkfleet.recipes.reader import RecipeReader
from sparkfleet.recipes.shelves.record import find_shelf, find_shelf_recipe, name_recipe
from sparkfleet.recipes.without_recipe import build_model_variables, is_model_name
from sparkfleet.yaml.nodes import List, Map, Node

__all__ = [
    "FIRST_TRY",
    "FOLDER",
    "Checkpoint",
    "LogLines",
    "Recipe",
    "SmokePrompt",
    "Speed",
    "load_recipe",
]

FIRST_TRY = "gpt-oss-20b"  # small, fast, and fits one Spark


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A model's recipe; `vars` are the defaults that the inventory can override.

    `tp_max` is the largest tensor-parallel size that the model's authors vouch for, `tp_min` the
    smallest number of Sparks that hold it. `gated` is None where the source does not say. `why`
    gives reasons by the name of an option, an environment variable or a variable. `extends`
    names the recipes that it is laid over, the nearest first. `format` is the tool whose file it
    or a recipe below it is, "" where all are sparkfleet's own; `shelf` is the shelf that it is
    from, "" for none. `places` is the position of each key, as ``checkpoint``,
    ``checkpoint.format``, ``speeds.0``. A model that was named instead of a recipe has none that is
    `written`; name and path are those of the model.
    """

    name: str
    path: Path
    description: str = ""
    source: str = ""
    licence: str = ""
    gated: bool | None = None
    vars: Mapping[str, Value] = field(default_factory=lambda: EMPTY)
    checkpoint: Checkpoint | None = None
    requires: Mapping[str, SpecifierSet] = field(default_factory=lambda: EMPTY)
    log: LogLines = field(default_factory=LogLines)
    why: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    request: tuple[str, ...] = ()
    speeds: tuple[Speed, ...] = ()
    advice: tuple[str, ...] = ()
    smoke: tuple[SmokePrompt, ...] = ()
    tp_min: int | None = None
    tp_max: int | None = None
    extends: tuple[str, ...] = ()
    format: str = ""
    shelf: str = ""
    places: Mapping[str, Where] = field(default_factory=lambda: EMPTY)
    written: bool = True

    @property
    def date(self) -> str:
        """The latest date that its source names, as YYYY-MM-DD or YYYY-MM; "" for none."""
        return max(re.findall(r"\b20\d\d-\d\d(?:-\d\d)?\b", self.source), default="")

    @property
    def foreign_mods(self) -> tuple[str, ...]:
        """Mods that came with a recipe of others and are run where it is used, not imported."""
        value = self.vars.get("engine_mods")
        return tuple(value.data or ()) if value is not None and self.is_foreign else ()

    @property
    def is_foreign(self) -> bool:
        """Whether it is used as others wrote it: a file of another tool, or one of a shelf."""
        return bool(self.format or self.shelf)

    @property
    def fastest(self) -> Speed | None:
        """The best published decode speed of one request, if there is one."""
        single = [speed for speed in self.speeds if speed.decode and speed.requests == 1]
        return max(single, key=lambda speed: speed.decode or 0, default=None)


def load_recipe(name: str) -> Recipe:
    """Return the recipe `name`: one of the catalogue, a path to a file, or a model, ``ORG/MODEL``.

    Raises RecipeError with everything that is wrong in it and in what it extends.
    """
    is_path = name.endswith(SUFFIXES)
    if not is_path and is_model_name(name) and find_shelf_recipe(name) is None:
        return Recipe(
            name=name,
            path=Path(name),
            description="no recipe: vLLM's defaults, and the memory rules of every recipe",
            source=f"huggingface.co/{name}",
            vars=build_model_variables(name),
            written=False,
        )
    path = locate_recipe(name)
    trees = load_chain(path)
    tree = merge_chain(trees)
    reader = RecipeReader()
    variables = schema.read_recipe_variables(tree, reader)
    metadata = schema.read_metadata(tree, reader)
    if reader.problems:
        raise RecipeError.of(reader.problems)
    names = tuple(Path(base.source.file).stem for base in trees[1:])
    return Recipe(
        name=name_recipe(path),
        path=path,
        shelf=_describe_shelf(path),
        vars=variables,
        extends=names,
        format=next((str(each.format) for each in trees if isinstance(each, ConvertedMap)), ""),
        places=_index_places(tree),
        **metadata,
    )


def _describe_shelf(path: Path) -> str:
    shelf = find_shelf(path)
    return "" if shelf is None else shelf.origin


def _index_places(tree: Map) -> Mapping[str, Where]:
    places = {}
    for key, node in tree.items():
        places[str(key.data)] = key.where
        if key.data in schema.METADATA_READERS:
            places.update({f"{key.data}.{name}": where for name, where in _list_inner_places(node)})
    return places


def _list_inner_places(node: Node) -> list[tuple[str, Where]]:
    if isinstance(node, Map):
        return [(str(key.data), key.where) for key in node.names()]
    items = node.items if isinstance(node, List) else ()
    return [(str(at), item.where) for at, item in enumerate(items)]
