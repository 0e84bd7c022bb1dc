"""A recipe: what it takes to serve one model, as variables of ours in one YAML file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparkfleet import source, yamlpos
from sparkfleet.errors import Problem, RecipeError
from sparkfleet.model import EMPTY, Value
from sparkfleet.resources import find, listing, shown
from sparkfleet.spelling import similar
from sparkfleet.variables import VARIABLES

FOLDER = "playbooks/recipes"
ABOUT = ("description", "source", "smoke", "tp_max")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A smoke prompt: what is asked, and a text that a right answer holds."""

    ask: str
    expect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A model's recipe; `vars` are the defaults that the inventory can override.

    `tp_max` is the largest tensor-parallel size that the model's authors vouch for.
    """

    name: str
    path: Path
    description: str = ""
    source: str = ""
    vars: Mapping[str, Value] = field(default_factory=lambda: EMPTY)
    smoke: tuple[Question, ...] = ()
    tp_max: int | None = None


def load(name: str) -> Recipe:
    """Return the recipe `name`: one of the catalogue, or a path to a file.

    Raises RecipeError with everything that is wrong in it.
    """
    path = Path(name) if name.endswith((".yml", ".yaml")) else find(FOLDER, f"{name}.yml")
    if path is None or not path.is_file():
        known = list(listing(FOLDER, ".yml"))
        raise RecipeError(f"there is no recipe {name!r}", hint=similar(name, known))
    tree = yamlpos.parse(source.read(shown(path), error=RecipeError), error=RecipeError)
    if not isinstance(tree, yamlpos.Map):
        raise RecipeError("a recipe is a mapping", where=tree.where)
    if problems := [_unknown(key) for key, _ in tree.items() if not _known(key.data)]:
        raise RecipeError.of(problems)
    return Recipe(
        name=path.stem,
        path=path,
        vars={
            str(key.data): Value(data=node.data, where=key.where)
            for key, node in tree.items()
            if key.data in VARIABLES
        },
        **_about(tree),
    )


def _known(name: object) -> bool:
    return name in VARIABLES or name in ABOUT


def _unknown(key: yamlpos.Scalar) -> Problem:
    hint = similar(str(key.data), [*VARIABLES, *ABOUT])
    return Problem(message=f"a recipe has no key {key.data!r}", where=key.where, hint=hint)


def _about(tree: yamlpos.Map) -> dict[str, Any]:
    about = {name: node.data for name in ABOUT if (node := tree.get(name)) is not None}
    if "smoke" in about:
        about["smoke"] = _questions(tree)
    tp_max = about.get("tp_max")
    if tp_max is not None and (isinstance(tp_max, bool) or not isinstance(tp_max, int)):
        raise RecipeError(
            f"tp_max is a whole number, not {tp_max!r}", where=tree.key("tp_max").where
        )
    return about


def _questions(tree: yamlpos.Map) -> tuple[Question, ...]:
    node = tree.get("smoke")
    items = node.data if isinstance(node, yamlpos.List) else None
    if items is None or not all(isinstance(i, dict) and set(i) == {"ask", "expect"} for i in items):
        raise RecipeError(
            "smoke is a list of questions",
            where=tree.key("smoke").where,
            hint='write: smoke: [{ask: "12*17", expect: "204"}]',
        )
    return tuple(Question(ask=str(item["ask"]), expect=str(item["expect"])) for item in items)
