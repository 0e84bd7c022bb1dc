"""A recipe: what it takes to serve one model, as variables of ours in one YAML file.

Beside the variables, which an inventory can override, it says what the model is, what it needs,
what its log looks like, how fast others found it, and why every unusual value is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from packaging.specifiers import SpecifierSet

from sparkfleet.errors import RecipeError, Where
from sparkfleet.model import EMPTY, Value
from sparkfleet.recipes import schema
from sparkfleet.recipes.about import Checkpoint, LogLines, Question, Speed
from sparkfleet.recipes.extends import FOLDER, chain, locate, merged
from sparkfleet.recipes.reader import Reader
from sparkfleet.yamlnodes import List, Map, Node

__all__ = ["FOLDER", "Checkpoint", "LogLines", "Question", "Recipe", "Speed", "load"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A model's recipe; `vars` are the defaults that the inventory can override.

    `tp_max` is the largest tensor-parallel size that the model's authors vouch for, `tp_min` the
    smallest number of Sparks that hold it. `gated` is None where the source does not say. `why`
    gives reasons by the name of an option, a variable of the environment or of ours. `extends`
    names the recipes that it is laid over, the nearest first. `places` tells where each key
    stands, as ``checkpoint``, ``checkpoint.format``, ``speeds.0``.
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
    smoke: tuple[Question, ...] = ()
    tp_min: int | None = None
    tp_max: int | None = None
    extends: tuple[str, ...] = ()
    places: Mapping[str, Where] = field(default_factory=lambda: EMPTY)

    @property
    def fastest(self) -> Speed | None:
        """The best published decode speed of one request, if there is one."""
        single = [one for one in self.speeds if one.decode and one.requests == 1]
        return max(single, key=lambda one: one.decode or 0, default=None)


def load(name: str) -> Recipe:
    """Return the recipe `name`: one of the catalogue, or a path to a file.

    Raises RecipeError with everything that is wrong in it and in what it extends.
    """
    path = locate(name)
    trees = chain(path)
    tree, reader = merged(trees), Reader()
    variables, about = schema.variables(tree, reader), schema.about(tree, reader)
    if reader.problems:
        raise RecipeError.of(reader.problems)
    names = tuple(Path(one.source.file).stem for one in trees[1:])
    return Recipe(
        name=path.stem, path=path, vars=variables, extends=names, places=_places(tree), **about
    )


def _places(tree: Map) -> Mapping[str, Where]:
    found = {}
    for key, node in tree.items():
        found[str(key.data)] = key.where
        if key.data in schema.ABOUT:
            found.update({f"{key.data}.{name}": where for name, where in _inner(node)})
    return found


def _inner(node: Node) -> list[tuple[str, Where]]:
    if isinstance(node, Map):
        return [(str(key.data), key.where) for key in node.names()]
    items = node.items if isinstance(node, List) else ()
    return [(str(at), item.where) for at, item in enumerate(items)]
