"""Looking at what a model is made of, in a folder here, on a host, or on the Hub; headers only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import huggingface_hub
from huggingface_hub import errors

from sparkfleet.errors import InputError
from sparkfleet.onhost import shape as onhost
from sparkfleet.remote.link import Link
from sparkfleet.weights import hub


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


def from_hub(name: str, revision: str) -> dict[str, Any]:
    """Return what ``ORG/NAME`` is made of, from the Hub; downloads configs and headers only.

    Raises HubError.
    """
    token = hub.token()
    files = {}
    for text in onhost.TEXTS:
        if (content := _text(name, revision, text, token)) is not None:
            files[text] = content
    return {"files": files, "tensors": _tensors(name, revision, token), "drafts": {}}


def _text(name: str, revision: str, file: str, token: str | None) -> str | None:
    try:
        path = huggingface_hub.hf_hub_download(name, file, revision=revision, token=token or False)
    except errors.EntryNotFoundError:
        return None
    except (errors.HTTPError, errors.OfflineModeIsEnabled, OSError) as error:  # type: ignore[attr-defined]
        raise hub.HubError(f"cannot read {file} of {name}: {error}") from error
    return Path(path).read_text()


def _tensors(name: str, revision: str, token: str | None) -> list[list[Any]]:
    try:
        found = huggingface_hub.get_safetensors_metadata(
            name, revision=revision, token=token or False
        )
    except errors.NotASafetensorsRepoError:
        return []
    except (errors.HTTPError, errors.OfflineModeIsEnabled, OSError) as error:  # type: ignore[attr-defined]
        raise hub.HubError(f"cannot read the headers of {name}: {error}") from error
    headers = [
        {
            tensor: {
                "dtype": info.dtype,
                "shape": info.shape,
                "data_offsets": info.data_offsets,
            }
            for tensor, info in file.tensors.items()
        }
        for file in found.files_metadata.values()
    ]
    return onhost.rows(headers)
