"""Resolve vLLM options that name a file or a model declared by the recipe.

`weights_files` and `weights_drafts` are staged below the weights folder of every node. An option
that names one, as declared or by its last component, gets the path that the engine sees: given an
id, vLLM would download the current ``main`` from the Hub to the weights folder. ``@MODEL@`` in an
option or in `vllm_env` stands for the model's own folder, such as ``@MODEL@/assistant`` for a
draft that ships with the model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from sparkfleet.errors import RecipeError
from sparkfleet.model import EMPTY
from sparkfleet.recipes.settings import Settings
from sparkfleet.vllm.arguments import check_raw_args, format_vllm_args
from sparkfleet.vllm.lora_modules import parse_lora_modules
from sparkfleet.vllm.options import VllmOption, parse_json_object
from sparkfleet.weights import layout
from sparkfleet.weights.required_models import RequiredModel, list_required_models

TAKES_FILE = ("chat-template", "reasoning-parser-plugin", "tool-parser-plugin")
MODEL_PLACEHOLDER = "@MODEL@"
SUFFIXES = (".jinja", ".jinja2", ".j2", ".py", ".txt")
TAKES_MODELS = ("speculative-config", "spec-model", "lora-modules")
HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserArguments:
    """`vllm_args` and `vllm_raw_args` whose declared names are paths."""

    args: Mapping[str, Any]
    raw_args: Sequence[str]


def build_user_arguments(
    settings: Settings, weights: str, model: str, drafts: Mapping[str, str] = EMPTY
) -> tuple[str, ...]:
    """Return the user's arguments of `vllm serve`: `vllm_args`, then `vllm_raw_args`.

    Raises RecipeError for an undeclared file and for an option that sparkfleet sets itself.
    """
    resolved = resolve_staged_names(settings, weights, model, drafts)
    return (
        *format_vllm_args(resolved.args, where=settings.origin("vllm_args")),
        *check_raw_args(resolved.raw_args, where=settings.origin("vllm_raw_args")),
    )


def resolve_staged_names(
    settings: Settings, weights: str, model: str, drafts: Mapping[str, str] = EMPTY
) -> UserArguments:
    """Return the user's arguments with every declared name replaced by its path below `weights`.

    `weights` and the folder `model` are paths as the engine sees them; `drafts` maps names of Hub
    models to their folders below `weights`.

    Raises RecipeError for an option that names an undeclared file or model, which would be missing
    in a container or on another node.
    """
    paths = map_staged_files(settings, weights)
    paths |= {name: f"{weights}/{path}" for name, path in drafts.items()}
    paths |= {name: model for name in (settings.text("vllm_model"),) if HUB_NAME.fullmatch(name)}
    for option in settings.vllm_options:
        _check_declared_names(settings, option, _replace_paths(option.value, paths, model))
    words = [str(word) for word in settings.value("vllm_raw_args") or ()]
    return UserArguments(
        args=_replace_paths(settings.mapping("vllm_args"), paths, model),
        raw_args=_replace_paths(words, paths, model),
    )


def _check_declared_names(settings: Settings, option: VllmOption, resolved: Any) -> None:
    """Raise RecipeError if an option, which is `resolved` with paths, names what is not staged."""
    made = bool(settings.value("engine_mods"))  # a mod may write the file in the container
    if not made and _is_undeclared_file(option, resolved):
        raise _undeclared_name_error(option, "weights_files", option.value)
    for name in _find_undeclared_models(settings, option):
        raise _undeclared_name_error(option, "weights_drafts", name)


def _undeclared_name_error(option: VllmOption, variable: str, name: str) -> RecipeError:
    kind = "file" if variable == "weights_files" else "model"
    return RecipeError(
        f"{option.flag} names the {kind} {name}, which {variable} does not declare",
        where=option.where,
        hint=f"add {variable}: [{name}] to stage it on every node, and keep the option as it is",
    )


def map_staged_files(settings: Settings, weights: str) -> dict[str, str]:
    """Return the path below `weights` of every file and local draft, by each of its names."""
    return {
        name: f"{weights}/{path}"
        for want in list_required_models(settings)[1:]
        if (path := _find_staged_path(want)) is not None
        for name in _list_path_names(want, path)
    }


def _find_undeclared_models(settings: Settings, option: VllmOption) -> Iterator[str]:
    """Yield Hub models that an option names by id and that are not declared."""
    if option.name in TAKES_MODELS and option.path in ((), ("model",)):
        declared = {want.name for want in list_required_models(settings)}
        for model in _list_model_names(option):
            if HUB_NAME.fullmatch(model) and model not in declared:
                yield model


def _list_model_names(option: VllmOption) -> Iterator[str]:
    if option.name == "lora-modules":
        yield from parse_lora_modules(option.value).values()
    else:
        yield str(parse_json_object(option.value).get("model") or option.value)


def _find_staged_path(want: RequiredModel) -> str | None:
    """Return the path below the weights folder of a required model; None for a Hub model.

    The folder of a Hub model depends on its commit, which only its manifest has.
    """
    if want.file is not None:
        return want.file
    return want.name if want.folder is not None else None


def _list_path_names(want: RequiredModel, path: str) -> set[str]:
    names = {path, PurePosixPath(path).name, f"./{path}"}
    if want.folder is not None:
        local = want.folder / want.file if want.file and want.name == layout.LOOSE else want.folder
        names.add(str(local))
    return names


def _replace_paths(value: Any, paths: Mapping[str, str], model: str) -> Any:
    if isinstance(value, str):
        return _replace_text_paths(value, paths).replace(MODEL_PLACEHOLDER, model)
    if isinstance(value, Mapping):
        return {key: _replace_paths(item, paths, model) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_paths(item, paths, model) for item in value]
    return value


def _replace_text_paths(value: str, paths: Mapping[str, str]) -> str:
    if parsed := parse_json_object(value):
        replaced = _replace_paths(parsed, paths, MODEL_PLACEHOLDER)
        return value if replaced == parsed else json.dumps(replaced, separators=(",", ":"))
    alias, sign, name = value.rpartition("=")
    return alias + sign + paths.get(name, name)


def _is_undeclared_file(option: VllmOption, value: Any) -> bool:
    is_path = isinstance(value, str) and value.endswith(SUFFIXES) and "\n" not in value
    return option.name in TAKES_FILE and is_path and not value.startswith(("/", "{{"))
