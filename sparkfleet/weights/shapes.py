"""Read the shape of a model from its headers: in a folder here, on a host, or on the Hub."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi

from sparkfleet.errors import InputError
from sparkfleet.onhost.shared.weights.model_shape import TEXTS, group_tensors, read_shape
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.resources import expand_home, is_existing_folder
from sparkfleet.values import convert_integer, convert_list, convert_mapping, convert_string
from sparkfleet.weights import hub
from sparkfleet.weights.manifest import refuse_hub_cache

MAX_TOTAL = 1 << 80  # elements or bytes of all tensors of a kind


def read_folder_shape(folder: Path) -> dict[str, Any]:
    """Return what the model in a folder of this machine is made of; raises InputError."""
    if not folder.is_dir():
        raise InputError(
            f"folder {folder} not found on this machine",
            hint="name the folder that holds config.json and the safetensors shards",
        )
    refuse_hub_cache(folder)
    try:
        return read_shape(folder)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"{folder}: cannot read the model: {error}",
            hint="check its files, or fetch the model again",
        ) from error


def fetch_host_shape(connection: Connection, folder: str) -> dict[str, Any]:
    """Return what the model in `folder` of the host behind `connection` is made of.

    A folder that is not there has no files. Raises CommandError and UnreachableError.
    """
    return connection.query("weights/shape", {"folder": folder}, _parse_shape)


def fetch_staged_shape(
    connection: Connection, root: str, model: str, revision: str
) -> dict[str, Any]:
    """Return what `model` below the weights folder `root` of a host is made of."""
    request = {"root": root, "model": model, "revision": revision}
    return connection.query("weights/shape", request, _parse_shape)


def _parse_shape(answer: Mapping[str, Any]) -> dict[str, Any]:
    texts = convert_mapping(answer["files"])
    drafts = convert_mapping(answer["drafts"])
    return {
        "files": {name: convert_string(text) for name, text in texts.items()},
        "tensors": _parse_rows(answer["tensors"]),
        "drafts": {name: _parse_rows(rows) for name, rows in drafts.items()},
    }


def _parse_rows(rows: Any) -> list[list[Any]]:
    return [_parse_row(*convert_list(row)) for row in convert_list(rows)]


def _parse_row(name: Any, dtype: Any, *counts: Any) -> list[Any]:
    numbers = [
        convert_integer(count, minimum=0, maximum=MAX_TOTAL, strict=True) for count in counts
    ]
    return [convert_string(name), convert_string(dtype), *convert_list(numbers, length=4)]


def fetch_hub_shape(name: str, revision: str) -> dict[str, Any]:
    """Return what ``ORG/NAME`` is made of; only configs and headers are downloaded.

    Raises HubError.
    """
    token = hub.read_token()
    manifest = hub.resolve_manifest(
        name, revision, token=token
    )  # fails at once where the Hub is not available
    commit = manifest.commit or revision
    api = HfApi(token=token or False)
    listed = {file.path for file in manifest.files}

    def read_text(file: str) -> str:
        path = api.hf_hub_download(name, file, revision=commit)
        return Path(path).read_text(encoding="utf-8")

    def read_header(file: str) -> dict[str, Any]:
        metadata = api.parse_safetensors_file_metadata(name, file, revision=commit)
        return {tensor: asdict(info) for tensor, info in metadata.tensors.items()}

    shards = [file for file in listed if "/" not in file and file.endswith(".safetensors")]
    texts = [file for file in TEXTS if file in listed]
    return {
        "files": {file: hub.query_hub(partial(read_text, file), name, token) for file in texts},
        "tensors": group_tensors(
            [hub.query_hub(partial(read_header, file), name, token) for file in shards]
        ),
        "drafts": {},
    }


def find_weights_source(settings: Settings) -> Path | None:
    """Return the recipe's local `weights_source`, if it exists."""
    text = settings.text("weights_source")
    return expand_home(text) if text and is_existing_folder(expand_home(text)) else None
