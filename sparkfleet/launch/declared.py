"""Options of vLLM that name a file or a model which the recipe declares (case C33).

`weights_files` and `weights_drafts` are staged below the weights folder of every node. An option
that names one, as it is declared or by its last part, gets the path that the engine sees: by its
id vLLM would ask the Hub for what is ``main`` now, and write that to the weights folder.
``@MODEL@`` in an option or in `vllm_env` stands for the model's own folder there (guide 7.2.3: a
draft in the model's ``assistant/``; 13.3: an image that is told by MODEL_PATH).
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from sparkfleet.errors import RecipeError
from sparkfleet.launch.arguments import flags, raw
from sparkfleet.model import EMPTY
from sparkfleet.recipes.settings import Settings
from sparkfleet.weights import layout
from sparkfleet.weights.wanted import Want, wanted

TAKES_FILE = ("chat-template", "reasoning-parser-plugin", "tool-parser-plugin")
MODEL = "@MODEL@"
SUFFIXES = (".jinja", ".jinja2", ".j2", ".py", ".txt")
TAKES_MODELS = ("speculative-config", "lora-modules")
HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def words(
    settings: Settings, weights: str, model: str, drafts: Mapping[str, str] = EMPTY
) -> tuple[str, ...]:
    """Return the words of `vllm serve` that the user chose: `vllm_args`, then `vllm_raw_args`.

    Raises RecipeError for a file that nobody declares and for an option that is ours.
    """
    found = arguments(settings, weights, model, drafts)
    options = flags(found, where=settings.origin("vllm_args"))
    more = [text.replace(MODEL, model) for text in settings.value("vllm_raw_args") or ()]
    return (*options, *raw(more, where=settings.origin("vllm_raw_args")))


def arguments(
    settings: Settings, weights: str, model: str, drafts: Mapping[str, str] = EMPTY
) -> dict[str, Any]:
    """Return `vllm_args` with every declared name replaced by its path below `weights`.

    `weights` and the folder `model` are as the engine sees them; `drafts` are the folders below
    `weights` of models of the Hub, by their names.

    Raises RecipeError for an option that takes a file or a model and names one that nobody
    declares: in a container, or on another node, it would not be there.
    """
    paths = files(settings, weights)
    paths |= {name: f"{weights}/{path}" for name, path in drafts.items()}
    paths |= {name: model for name in (settings.text("vllm_model"),) if HUB_NAME.fullmatch(name)}
    found = {}
    for option, value in settings.mapping("vllm_args").items():
        found[option] = _replaced(value, paths, model)
        if _is_lost(option, found[option]):
            raise _undeclared(settings, option, "weights_files", value)
        for name in _lost_models(settings, option, value):
            raise _undeclared(settings, option, "weights_drafts", name)
    return found


def _undeclared(settings: Settings, option: str, variable: str, name: str) -> RecipeError:
    kind = "file" if variable == "weights_files" else "model"
    return RecipeError(
        f"vllm_args: {option} names the {kind} {name}, and no {variable} declares it",
        where=settings.origin("vllm_args", option),
        hint=f"{variable}: [{name}] stages it on every node; the option stays as it is",
    )


def files(settings: Settings, weights: str) -> dict[str, str]:
    """Return the path below `weights` of every file and local draft, by each of its names."""
    return {
        name: f"{weights}/{path}"
        for want in wanted(settings)[1:]
        if (path := _place(want)) is not None
        for name in _names(want, path)
    }


def _lost_models(settings: Settings, option: str, value: Any) -> Iterator[str]:
    """Yield the models of the Hub that an option names by their ids, and that no want declares."""
    if option.lstrip("-").replace("_", "-") in TAKES_MODELS:
        declared = {want.name for want in wanted(settings)}
        items = value if isinstance(value, list | tuple) else (value,)
        for name in map(_model, items):
            if HUB_NAME.fullmatch(name) and name not in declared:
                yield name


def _model(item: Any) -> str:
    """Return the model of ``{model: NAME}``, ``{path: NAME}`` or ``ALIAS=NAME``."""
    item = _parsed(item)
    if isinstance(item, Mapping):
        return str(item.get("model") or item.get("path") or "")
    return str(item).rpartition("=")[2]


def _parsed(item: Any) -> Any:
    """Return what JSON in a text stands for, anything else as it is."""
    if isinstance(item, str) and item.startswith("{"):
        with contextlib.suppress(ValueError):  # no JSON: as it is
            return json.loads(item)
    return item


def _place(want: Want) -> str | None:
    """Return where a want is staged below the weights folder; None for a model of the Hub.

    Only its manifest knows its commit.
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
        return _text(value, paths).replace(MODEL, model)
    if isinstance(value, Mapping):
        return {key: _replaced(item, paths, model) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(item, paths, model) for item in value]
    return value


def _text(value: str, paths: Mapping[str, str]) -> str:
    parsed = _parsed(value)
    if isinstance(parsed, Mapping):
        found = _replaced(parsed, paths, MODEL)
        return value if found == parsed else json.dumps(found, separators=(",", ":"))
    alias, sign, name = value.rpartition("=")
    return alias + sign + paths.get(name, name)


def _is_lost(option: str, value: Any) -> bool:
    takes_file = option.lstrip("-").replace("_", "-") in TAKES_FILE
    is_path = isinstance(value, str) and value.endswith(SUFFIXES) and "\n" not in value
    return takes_file and is_path and not value.startswith(("/", "{{"))
