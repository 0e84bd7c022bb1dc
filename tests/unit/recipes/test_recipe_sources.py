"""The recipes of autumn 2026 against the options that their public sources give."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from sparkfleet.recipes.recipe import Recipe, load_recipe
from sparkfleet.vllm.owned_options import OWNED_OPTIONS
from tests.documents import SEEDS, Command, command

DOCUMENT = "6-models-autumn-2026.md"
NAMES = re.findall(r"^## (\S+)$", (SEEDS / DOCUMENT).read_text(), re.MULTILINE)
IMAGES = {  # local names of images that their authors publish
    "vllm-node": "eugr/spark-vllm:latest",
    "vllm-node-b12x": "eugr/spark-vllm-b12x:latest",
}
LEFT_OUT = {("nemotron-3-nano-omni-30b-a3b-nvfp4", "allowed-local-media-path")}  # opens all files
LEFT_OUT_MODS = {
    "drop-caches",  # needs a privileged container
    "install-ray",  # for starts by Ray; the recipes start without
}
ADDED = {  # variables of a mod, for weights at another commit than main
    "mimo-v2.6-flash": {"MIMO_V26_MODEL_DIR": "@MODEL@"}
}
SHORT = {"tp": "tensor-parallel-size"}


def _fold(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with ``--name.key value`` as JSON, and ``--no-name`` as false."""
    folded: dict[str, Any] = {}
    for written, value in args.items():
        first, _, key = written.partition(".")
        head = first.replace("_", "-")
        if key:
            text = value if value in ("true", "false") or value.isdecimal() else json.dumps(value)
            folded.setdefault(head, {})[key] = json.loads(text)
        elif head.startswith("no-"):
            folded[head.removeprefix("no-")] = False
        else:
            folded[SHORT.get(head, head)] = value
    return folded


def _normal(value: Any) -> Any:
    if isinstance(value, bool | dict):
        return value
    try:
        return float(str(value))
    except ValueError:
        return str(value)


def _variable(recipe: Recipe, name: str, default: Any = None) -> Any:
    return recipe.vars[name].data if name in recipe.vars else default


def _printed(name: str) -> Command:
    return command(DOCUMENT, f"{name}\n")


def _environment(recipe: Recipe, name: str) -> dict[str, str]:
    values = _variable(recipe, name, {})
    return {key: str(value) for key, value in values.items() if value is not None}


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_has_the_options_of_its_source(name: str) -> None:
    ours = _variable(load_recipe(name), "vllm_args")
    printed = {
        option: _normal(value)
        for option, value in _fold(_printed(name).args).items()
        if option not in OWNED_OPTIONS and (name, option) not in LEFT_OUT
    }
    assert {option: _normal(value) for option, value in ours.items()} == printed


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_has_the_environment_of_its_source(name: str) -> None:
    recipe = load_recipe(name)
    printed = _printed(name).env
    nccl = {key: value for key, value in printed.items() if key.startswith("NCCL_")}
    assert _environment(recipe, "vllm_env") == {
        key: value for key, value in printed.items() if key not in nccl
    } | ADDED.get(name, {})
    solo = recipe.tp_max == 1  # NCCL has nothing to do there
    assert _environment(recipe, "nccl_env") == ({} if solo else nccl)


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_has_the_model_the_image_and_the_size_of_its_source(name: str) -> None:
    recipe = load_recipe(name)
    printed = _printed(name)
    args = _fold(printed.args)
    assert printed.model == _variable(recipe, "vllm_model")
    assert IMAGES.get(printed.image, printed.image) == _variable(recipe, "engine_image")
    assert args.get("served-model-name") == _variable(recipe, "vllm_served_name")
    size = int(args.get("tensor-parallel-size", 1))
    assert (recipe.tp_min or 1, recipe.tp_max) == (size, size)
    assert _variable(recipe, "vllm_executor") == ("mp" if size > 1 else None)


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_stages_the_draft_of_its_source(name: str) -> None:
    recipe = load_recipe(name)
    speculation = _fold(_printed(name).args).get("speculative-config", {})
    assert _variable(recipe, "weights_drafts", []) == [
        model
        for model in (speculation.get("model"),)
        if model and not model.startswith("/")  # a mod makes such a folder
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_applies_the_mods_of_its_source(name: str) -> None:
    recipe = load_recipe(name)
    (section,) = re.findall(
        rf"^## {re.escape(name)}\n(.*?)^```",
        (SEEDS / DOCUMENT).read_text(),
        re.MULTILINE | re.DOTALL,
    )
    _, _, words = " ".join(section.split()).partition(" with the mod")
    words = words.removeprefix("s").rstrip(".")
    mods = [word for word in re.split(r", | and | ", words) if word]
    ours = [path.rpartition("/")[2] for path in _variable(recipe, "engine_mods", [])]
    assert ours == [mod for mod in mods if mod not in LEFT_OUT_MODS]


def test_every_recipe_of_the_autumn_names_where_it_is_from() -> None:
    for name in NAMES:
        recipe = load_recipe(name)
        assert re.search(r"\b(at [0-9a-f]{7,8}|2026-\d\d-\d\d)\b", recipe.source), name
        assert all(speed.date.startswith("2026-") for speed in recipe.speeds), name
