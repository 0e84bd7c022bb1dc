"""Options of vLLM that name a file or a draft model which the recipe declares (case C33).

`weights_files` and `weights_drafts` are staged below the weights folder of every node. An option
that names one, as it is declared or by its last part, gets the path that the engine sees.
``@MODEL@`` in an option or in `vllm_env` stands for the model's own folder there (guide 7.2.3: a
draft in the model's ``assistant/``; 13.3: an image that is told by MODEL_PATH).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from sparkfleet.errors import RecipeError
from sparkfleet.launch.arguments import flags, raw
from sparkfleet.recipes.settings import Settings
from sparkfleet.weights import layout
from sparkfleet.weights.wanted import Want, wanted

TAKES_FILE = ("chat-template", "reasoning-parser-plugin", "tool-parser-plugin")
MODEL = "@MODEL@"
SUFFIXES = (".jinja", ".jinja2", ".j2", ".py", ".txt")


def words(settings: Settings, weights: str, model: str) -> tuple[str, ...]:
    """Return the words of `vllm serve` that the user chose: `vllm_args`, then `vllm_raw_args`.

    Raises RecipeError for a file that nobody declares and for an option that is ours.
    """
    options = flags(arguments(settings, weights, model), where=settings.origin("vllm_args"))
    more = [text.replace(MODEL, model) for text in settings.value("vllm_raw_args") or ()]
    return (*options, *raw(more, where=settings.origin("vllm_raw_args")))


def arguments(settings: Settings, weights: str, model: str) -> dict[str, Any]:
    """Return `vllm_args` with every declared name replaced by its path below `weights`.

    `weights` and the folder `model` are as the engine sees them.

    Raises RecipeError for an option that takes a file and names one that nobody declares: in a
    container, or on another node, it would not be there.
    """
    paths = files(settings, weights)
    found = {}
    for option, value in settings.mapping("vllm_args").items():
        found[option] = _replaced(value, paths, model)
        if _is_lost(option, found[option]):
            raise RecipeError(
                f"vllm_args: {option} names the file {value}, and no weights_files declares it",
                where=settings.origin("vllm_args", option),
                hint=f"weights_files: [{value}] stages it on every node; the option stays as it is",
            )
    return found


def files(settings: Settings, weights: str) -> dict[str, str]:
    """Return the path below `weights` of every file and local draft, by each of its names."""
    return {
        name: f"{weights}/{path}"
        for want in wanted(settings)[1:]
        if (path := _place(want)) is not None
        for name in _names(want, path)
    }


def _place(want: Want) -> str | None:
    """Return where a want is staged below the weights folder; None for a model of the Hub.

    vLLM finds that one by its id.
    """
    if want.file is not None:
        return want.file
    return want.name if want.folder is not None else None


def _names(want: Want, path: str) -> set[str]:
    names = {path, PurePosixPath(path).name, f"./{path}"}
    if want.folder is not None:
        local = want.folder / want.file if want.file and want.name == layout.LOOSE else want.folder
        names.add(str(local))
    return names


def _replaced(value: Any, paths: Mapping[str, str], model: str) -> Any:
    if isinstance(value, str):
        return paths.get(value, value).replace(MODEL, model)
    if isinstance(value, Mapping):
        return {key: _replaced(item, paths, model) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(item, paths, model) for item in value]
    return value


def _is_lost(option: str, value: Any) -> bool:
    takes_file = option.lstrip("-").replace("_", "-") in TAKES_FILE
    is_path = isinstance(value, str) and value.endswith(SUFFIXES) and "\n" not in value
    return takes_file and is_path and not value.startswith("/")
