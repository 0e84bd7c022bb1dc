"""The files of a model on each host, as its own programs report them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sparkfleet.model import EMPTY
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.answers import parse_answer
from sparkfleet.remote.connection import Connection
from sparkfleet.weights import layout
from sparkfleet.weights.manifest import Manifest
from sparkfleet.weights.transfer.session import ProgramSession


@dataclass(frozen=True, slots=True, kw_only=True)
class IncompleteFile:
    """A file that is not complete on a host.

    `state` is missing, size, hash, header, dangling, unreadable, outside or kind; `have` is a file
    of that host with the right bytes, which need a `copy`, not a hard link, to get to their place;
    `offset` is how many bytes arrived in an earlier run.
    """

    path: str
    state: str
    seen: str
    have: str | None = None
    copy: bool = False
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The weights folder of a host and its limits; sizes in bytes.

    `base` is the root, or the nearest folder above it that exists. `foreign` are paths of the model
    that belong to another user or cannot be read, `locked` folders that cannot be written,
    `strays` downloads that never ended, `extra` weights files that the manifest does not name,
    `indexes` what is wrong with each index of shards.
    """

    root: str
    base: str
    folder: bool
    writable: bool
    owner: str
    user: str
    filesystem: str
    free: int
    free_inodes: int | None = None
    quota_left: int | None = None
    cores: int = 1
    foreign: tuple[str, ...] = ()
    locked: tuple[str, ...] = ()
    strays: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()
    refs: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    indexes: Mapping[str, str] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """The state of a manifest on one host; `hashed` counts the bytes that were read for it."""

    host: str
    storage: Storage
    findings: tuple[IncompleteFile, ...] = ()
    hashed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredSpace:
    """The space that staging needs on a host: files by their sizes, and links."""

    sizes: tuple[int, ...] = ()
    links: int = 0

    def __add__(self, other: RequiredSpace) -> RequiredSpace:
        return RequiredSpace(sizes=self.sizes + other.sizes, links=self.links + other.links)


HashedCallback = Callable[[int], None]
"""Called repeatedly with the bytes hashed so far."""


def ignore_hashed(_: int) -> None:
    """Take how far the hashing is, and drop it."""


def inspect_weights(
    connection: Connection,
    manifest: Manifest,
    root: str,
    *,
    full: bool = False,
    record: bool = True,
    on_hashed: HashedCallback = ignore_hashed,
) -> Inspection:
    """Inspect what the host of `connection` has of `manifest` below `root` (its `weights_dir`).

    `full` hashes every file again; without it, files that the ledger knows unchanged are trusted.
    With `record` off nothing is written there, not even the ledger. While it reads for long, it
    reports `hashed`.
    """
    settings = Settings(host=connection.host)
    request = {
        "root": root,
        "files": [location.item() for location in layout.list_file_locations(manifest)],
        "caches": settings.value("weights_caches") if settings.brings_weights else [],
        "full": full,
        "ledger": layout.ledger_path(settings, root),
        "record": record,
    }
    with ProgramSession(connection, "weights/tree", request, little=True) as hashing:
        storage = connection.query(
            "weights/storage", _storage_request(manifest, root), _parse_storage
        )
        files = hashing.answer(lambda progress: on_hashed(progress["hashed"]))
    host = connection.host.name
    parser = partial(_parse_inspection, host, storage)
    return parse_answer(parser, files, host, "weights/tree")


def _parse_inspection(host: str, storage: Storage, files: Mapping[str, Any]) -> Inspection:
    return Inspection(
        host=host,
        storage=storage,
        findings=tuple(IncompleteFile(**finding) for finding in files["files"]),
        hashed=int(files["hashed"]),
    )


def _storage_request(manifest: Manifest, root: str) -> dict[str, Any]:
    locations = layout.list_file_locations(manifest)
    return {
        "root": root,
        "folder": layout.model_folder(manifest),
        "served": layout.served_folder(manifest),
        "expected": [name for location in locations for name in {location.path, location.blob}],
        "refs": list(layout.build_metadata_files(manifest)),
        "indexes": layout.list_shard_indexes(manifest),
    }


def _parse_storage(reply: Mapping[str, Any]) -> Storage:
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in reply.items()
    }
    return Storage(**values)
