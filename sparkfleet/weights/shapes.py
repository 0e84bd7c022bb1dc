"""Looking at what a model is made of, in a folder here, on a host, or on the Hub; headers only."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from huggingface_hub import errors, get_safetensors_metadata, hf_hub_download

from sparkfleet.errors import InputError
from sparkfleet.onhost import shape as onhost
from sparkfleet.remote.link import Link
from sparkfleet.weights import hub

TEXTS = onhost.TEXTS


def from_folder(folder: Path) -> dict[str, Any]:
    """Return what the model in a folder of this machine is made of; raises InputError."""
    if not folder.is_dir():
        raise InputError(
            f"there is no folder {folder} on this machine",
            hint="name the folder that holds config.json and the safetensors shards",
        )
    try:
        return onhost.read(folder)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{folder}: cannot read the model: {error}") from error


def from_host(link: Link, folder: str) -> dict[str, Any]:
    """Return what the model in `folder` of the host behind `link` is made of.

    A folder that is not there has no files. Raises CommandError and UnreachableError.
    """
    return link.ask("shape", {"folder": folder})


def staged(link: Link, root: str, model: str, revision: str) -> dict[str, Any]:
    """Return what `model` below the weights folder `root` of a host is made of."""
    return link.ask("shape", {"root": root, "model": model, "revision": revision})


def from_hub(name: str, revision: str) -> dict[str, Any]:
    """Return what ``ORG/NAME`` is made of; of the Hub only configs and headers are asked.

    Raises HubError.
    """
    token = hub.token()
    files = {file: hub.ask(partial(_text, name, revision, file), name, token) for file in TEXTS}
    headers = hub.ask(partial(_headers, name, revision), name, token)
    return {
        "files": {file: text for file, text in files.items() if text is not None},
        "tensors": onhost.rows(headers),
        "drafts": {},
    }


def _text(name: str, revision: str, file: str) -> str | None:
    try:
        path = hf_hub_download(name, file, revision=revision, token=hub.token() or False)
    except errors.EntryNotFoundError:
        return None
    return Path(path).read_text(encoding="utf-8")


def _headers(name: str, revision: str) -> list[dict[str, Any]]:
    try:
        found = get_safetensors_metadata(name, revision=revision, token=hub.token() or False)
    except errors.NotASafetensorsRepoError:
        return []
    return [
        {tensor: asdict(info) for tensor, info in file.tensors.items()}
        for file in found.files_metadata.values()
    ]
