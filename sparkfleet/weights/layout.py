"""The layout of a model below the weights folder of a host; pure.

A model of the Hub has the classic cache layout, which every version of `huggingface_hub` and
vLLM reads with ``HF_HOME`` at the weights folder::

    hub/models--ORG--NAME/blobs/<hash>
                          refs/main                      the commit
                          snapshots/<commit>/<path>   -> ../../blobs/<hash>

A bundle from a local folder is copied as it is to ``<name>/``, as `hf download --local-dir` leaves
it; one that is named ``.`` directly into the weights folder (parser plugins).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparkfleet.recipes.settings import Settings
from sparkfleet.weights.manifest import INDEX, Manifest, ModelFile, dump_manifest

RECORDS = ".sparkfleet/manifests"
LEDGER = "ledger.jsonl"
LOOSE = "."


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLocation:
    """The location of one file: `path` is what the engine reads, `blob` has the bytes."""

    file: ModelFile
    path: str
    blob: str

    def item(self) -> dict[str, Any]:
        """Return the place as the programs on the hosts want it."""
        return {
            "path": self.path,
            "blob": self.blob,
            "size": self.file.size,
            "hash": self.file.hash,
        }


def locate_model_folder(manifest: Manifest) -> str:
    """Return the folder that holds all of the model, below the weights folder."""
    if manifest.commit is None:
        return manifest.name
    return "hub/models--" + manifest.name.replace("/", "--")


def locate_served_folder(manifest: Manifest) -> str:
    """Return the folder that the engine reads, below the weights folder."""
    folder = locate_model_folder(manifest)
    return folder if manifest.commit is None else f"{folder}/snapshots/{manifest.commit}"


def list_file_locations(manifest: Manifest) -> tuple[FileLocation, ...]:
    """Return the place of every file."""
    return tuple(_locate_file(manifest, file) for file in manifest.files)


def _locate_file(manifest: Manifest, file: ModelFile) -> FileLocation:
    folder = locate_served_folder(manifest)
    path = file.path if folder == LOOSE else f"{folder}/{file.path}"
    if manifest.commit is None:
        return FileLocation(file=file, path=path, blob=path)
    return FileLocation(
        file=file,
        path=path,
        blob=f"{locate_model_folder(manifest)}/blobs/{file.sha256 or file.git_sha1}",
    )


def list_shard_indexes(manifest: Manifest) -> dict[str, bool]:
    """Return each index of shards, and whether it is in a folder below the model's own."""
    paths = [location.path for location in list_file_locations(manifest)]
    top = min((path.count("/") for path in paths), default=0)
    return {path: path.count("/") > top for path in paths if path.endswith(INDEX)}


def locate_staged_manifest(manifest: Manifest) -> str | None:
    """Return the file that keeps the manifest of what was staged: the proof for later runs."""
    folder = locate_model_folder(manifest)
    name = folder.removeprefix("hub/").replace("/", "--")
    return None if folder == LOOSE else f"{RECORDS}/{name}.json"


def locate_ref(manifest: Manifest) -> str | None:
    """Return the file in which `huggingface_hub` looks up the commit of a branch or tag."""
    if manifest.commit is None or manifest.revision == manifest.commit:
        return None
    return f"{locate_model_folder(manifest)}/refs/{manifest.revision}"


def build_metadata_files(manifest: Manifest) -> dict[str, str]:
    """Return the small files that are written once all others are in place."""
    files = {
        locate_ref(manifest): manifest.commit or "",
        locate_staged_manifest(manifest): dump_manifest(manifest),
    }
    return {path: content for path, content in files.items() if path}


def locate_ledger(settings: Settings, root: str) -> str:
    """Return the file in which a host keeps what it has proven below its weights folder `root`.

    It is next to weights that sparkfleet stages. A store that it does not write to may be shared by
    several hosts, whose lines would mix: there each host has its own.
    """
    folder = f"{root}/.sparkfleet" if settings.brings_weights else settings.cluster_dir
    return f"{folder}/{LEDGER}"
