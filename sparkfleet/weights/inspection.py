"""The files of a model on each host, as its own programs report them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sparkfleet.errors import InvalidValueError
from sparkfleet.model import EMPTY
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.values import (
    convert_choice,
    convert_count,
    convert_flag,
    convert_list,
    convert_mapping,
    convert_string,
)
from sparkfleet.weights import layout
from sparkfleet.weights.manifest import Manifest
from sparkfleet.weights.transfer.session import ProgramSession

STATES = ("missing", "size", "hash", "header", "dangling", "unreadable", "outside", "kind")
TEXTS = ("root", "base", "owner", "user", "filesystem")
LISTS = ("foreign", "locked", "strays", "extra", "commits")


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
    """Ignore the progress of hashing."""


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
    locations = layout.list_file_locations(manifest)
    request = {
        "root": root,
        "files": [location.item() for location in locations],
        "caches": settings.value("weights_caches") if settings.brings_weights else [],
        "full": full,
        "ledger": layout.locate_ledger(settings, root),
        "record": record,
    }
    with ProgramSession(connection, "weights/tree", request, little=True) as hashing:
        storage = connection.query(
            "weights/storage", _storage_request(manifest, root), _parse_storage
        )
        paths = {location.path for location in locations}
        return hashing.query(
            partial(_parse_inspection, connection.host.name, storage, paths=paths),
            lambda progress: on_hashed(progress.get("hashed", 0)),
        )


def _parse_inspection(
    host: str, storage: Storage, files: Mapping[str, Any], *, paths: Collection[str]
) -> Inspection:
    findings = (_parse_finding(finding, paths) for finding in convert_list(files["files"]))
    return Inspection(
        host=host,
        storage=storage,
        findings=tuple(findings),
        hashed=convert_count(files["hashed"]),
    )


def _parse_finding(finding: Mapping[str, Any], paths: Collection[str]) -> IncompleteFile:
    have = finding.get("have")
    path = convert_string(finding["path"])
    if path not in paths:
        raise InvalidValueError("a file of the model", path)
    return IncompleteFile(
        path=path,
        state=convert_choice(finding["state"], STATES),
        seen=convert_string(finding["seen"]),
        have=None if have is None else convert_string(have),
        copy=convert_flag(finding.get("copy", False), strict=True),
        offset=convert_count(finding.get("offset", 0)),
    )


def _storage_request(manifest: Manifest, root: str) -> dict[str, Any]:
    locations = layout.list_file_locations(manifest)
    return {
        "root": root,
        "folder": layout.locate_model_folder(manifest),
        "served": layout.locate_served_folder(manifest),
        "expected": [name for location in locations for name in {location.path, location.blob}],
        "refs": list(layout.build_metadata_files(manifest)),
        "indexes": layout.list_shard_indexes(manifest),
    }


def _parse_storage(reply: Mapping[str, Any]) -> Storage:
    texts = {name: convert_string(reply[name]) for name in TEXTS}
    flags = {name: convert_flag(reply[name], strict=True) for name in ("folder", "writable")}
    lists = {name: tuple(map(convert_string, convert_list(reply[name]))) for name in LISTS}
    tables = {
        name: {key: convert_string(text) for key, text in convert_mapping(reply[name]).items()}
        for name in ("refs", "indexes")
    }
    limits = {
        name: None if reply[name] is None else convert_count(reply[name])
        for name in ("free_inodes", "quota_left")
    }
    fields: dict[str, Any] = {**texts, **flags, **lists, **tables, **limits}
    cores = max(1, convert_count(reply["cores"]))
    return Storage(free=convert_count(reply["free"]), cores=cores, **fields)
