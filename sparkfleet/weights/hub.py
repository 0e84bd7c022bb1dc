"""The files of a model on the Hub at one commit, and access to them, through `huggingface_hub`.

The Hub is queried as little as possible: a manifest at a commit never changes, so it is fetched
once and kept, and in offline mode only kept manifests count.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import huggingface_hub
from huggingface_hub import constants, errors
from huggingface_hub.hf_api import RepoSibling
from huggingface_hub.utils import (  # type: ignore[attr-defined] # not in its __all__
    filter_repo_objects,
    validate_repo_id,
)

from sparkfleet.errors import InputError
from sparkfleet.safe_paths import (
    GIT,
    SHA256,
    UnexpectedError,
    check_relative_path,
    is_below,
    shorten_value,
)
from sparkfleet.weights.hub_client import ask_in_time
from sparkfleet.weights.hub_errors import (
    CLIENT_ERRORS,
    NO_NETWORK,
    NO_TOKEN,
    NOT_HUB,
    PROXY_HINT,
    explain_client_error,
    explain_hub_error,
    find_http_status,
    find_proxy,
    parse_retry_after,
)
from sparkfleet.weights.manifest import (
    FileFilter,
    Manifest,
    ModelFile,
    dump_manifest,
    locate_user_cache,
    parse_manifest,
)
from sparkfleet.weights.transfer.sources import HubSource

T = TypeVar("T")
WAITS = (0.5, 1, 2)  # seconds, between tries
PATIENCE = 60  # seconds that the Hub may ask us to wait
BUSY = (408, 429, 500, 502, 503, 504)
KEPT = "no network? to use what was resolved before: --set weights_offline=true"
NO_HEAD = (405, 501)  # a mirror that answers GET only
KINDS = {SHA256: "sha256", GIT: "git_sha1"}  # by the digits of an ETag


class HubError(InputError):
    """A model is not available from the Hub: not found, no access, or no connection."""


def is_offline() -> bool:
    """Return whether the user's environment forbids queries to the Hub: HF_HUB_OFFLINE."""
    return bool(constants.HF_HUB_OFFLINE)


def resolve_manifest(
    name: str, revision: str = "main", *, token: str | None = None, offline: bool = False
) -> Manifest:
    """Return the manifest of ``ORG/NAME`` at the commit that `revision` is now.

    Raises HubError, in offline mode also for a revision that was never resolved here.
    """
    _check_repo_id(name, revision)
    offline = offline or is_offline()
    cached = load_cached_manifest(name, revision)
    if cached is not None and (offline or revision == cached.commit):
        return cached
    if offline:
        switch = "HF_HUB_OFFLINE" if is_offline() else "weights_offline"
        raise HubError(
            f"{name}@{revision} is not cached, and {switch} is set",
            hint="run once with network access, or set weights_source to a local folder",
        )
    manifest = _fetch_manifest(name, revision, token)
    cache_manifest(manifest)
    return manifest


def _check_repo_id(name: str, revision: str) -> None:
    if not is_below(revision):
        raise HubError(
            f"{shorten_value(revision)} is not a revision of {name}",
            hint="set weights_revision to a branch, a tag or a commit",
        )
    try:
        validate_repo_id(name)
    except errors.HFValidationError as error:
        raise HubError(
            f"{name!r} is not the name of a model on the Hub",
            hint="write ORG/NAME only; a revision goes in weights_revision, a GGUF quantization in "
            "weights_allow, a local folder in weights_source",
        ) from error


def select_files(
    manifest: Manifest, *, allow: Collection[str] = (), ignore: Collection[str] = ()
) -> Manifest:
    """Return `manifest` with only the files that match `allow` (all, if empty) and not `ignore`.

    Raises HubError if that leaves none.
    """
    matches = make_file_filter(allow, ignore)
    chosen = replace(manifest, files=tuple(file for file in manifest.files if matches(file.path)))
    if not chosen.files:
        patterns = ", ".join(allow) or "any name"
        page = f"{constants.ENDPOINT}/{manifest.name}/tree/{manifest.revision}"
        raise HubError(
            f"{manifest.name} has no file like {patterns} at {manifest.revision}",
            hint=f"see {page}; then correct weights_allow, weights_ignore or weights_files",
        )
    return chosen


def make_file_filter(allow: Collection[str], ignore: Collection[str]) -> FileFilter:
    """Return a filter for files that match `allow` (any file, if empty) and not `ignore`."""

    def chosen(path: str) -> bool:
        allowed = list(allow) or None
        ignored = list(ignore) or None
        return any(filter_repo_objects([path], allow_patterns=allowed, ignore_patterns=ignored))

    return chosen


def check_access(source: HubSource, path: str) -> None:
    """Raise HubError if the token of `source` may not download the file `path`.

    The listing of a gated model is public; only its files are not.
    """
    name = source.url.removeprefix(f"{constants.ENDPOINT}/").partition("/resolve/")[0]
    url = source.url + quote(path)
    token = source.token
    try:
        query_hub(
            lambda: huggingface_hub.get_hf_file_metadata(url, token=token or False), name, token
        )
    except HubError as error:
        if find_http_status(error.__cause__) not in NO_HEAD:
            raise


def resolve_url(manifest: Manifest) -> str:
    """Return the address below which the Hub has the files of `manifest`."""
    return f"{constants.ENDPOINT}/{quote(manifest.name)}/resolve/{manifest.commit}/"


def read_token() -> str | None:
    """Return the user's token: HF_TOKEN, or what `hf auth login` saved.

    Raises HubError for a file that cannot be read, and for what cannot be a token.
    """
    try:
        token = huggingface_hub.get_token()
    except (OSError, ValueError) as error:
        problem = f"cannot read the token in {constants.HF_TOKEN_PATH}: {error}"
        raise HubError(problem, hint=NO_TOKEN) from error
    if token and not (token.isascii() and token.isprintable()):
        raise HubError(
            f"the token in HF_TOKEN or {constants.HF_TOKEN_PATH} contains invalid characters",
            hint=NO_TOKEN,
        )
    return token


def load_cached_manifest(name: str, revision: str) -> Manifest | None:
    """Return the manifest that was last resolved for `revision`, if any was."""
    with contextlib.suppress(OSError, ValueError):  # none, or what a power cut left of it
        return parse_manifest(_manifest_cache_path(name, revision).read_text())
    return None


def cache_manifest(manifest: Manifest) -> None:
    """Remember `manifest` under its revision and its commit, if this user's cache can take it."""
    for revision in {manifest.revision, manifest.commit or ""} - {""}:
        path = _manifest_cache_path(manifest.name, revision)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(f"{path.name}.{os.getpid()}")
            partial.write_text(dump_manifest(replace(manifest, revision=revision)))
            partial.replace(path)


def _manifest_cache_path(name: str, revision: str) -> Path:
    return locate_user_cache() / "manifests" / quote(name, safe="") / quote(revision, safe="")


def _fetch_manifest(name: str, revision: str, token: str | None) -> Manifest:
    api = huggingface_hub.HfApi(token=token or False)
    info = query_hub(
        lambda: api.model_info(name, revision=revision, files_metadata=True), name, token
    )
    if not info.sha or not info.siblings:
        raise HubError(f"no commit or file list of {name} from {constants.ENDPOINT}", hint=NOT_HUB)
    try:
        empty = Manifest(name=name, commit=info.sha, revision=revision, files=())
        files = tuple(_parse_sibling(api, empty, row) for row in info.siblings)
        return replace(empty, files=files)
    except UnexpectedError as error:
        problem = error.format_message(f" of {name} from {constants.ENDPOINT}")
        raise HubError(problem, hint=NOT_HUB) from error


def _parse_sibling(api: huggingface_hub.HfApi, manifest: Manifest, row: RepoSibling) -> ModelFile:
    if row.size is None or not (row.lfs or row.blob_id):
        return _fetch_file_metadata(api, manifest, check_relative_path("file name", row.rfilename))
    hashes = {"sha256": row.lfs.sha256} if row.lfs else {"git_sha1": row.blob_id}
    return ModelFile(path=row.rfilename, size=row.size, **hashes)


def _fetch_file_metadata(api: huggingface_hub.HfApi, manifest: Manifest, path: str) -> ModelFile:
    """Ask for the size and the hash of one file, which the listing of a mirror lacks."""
    url = resolve_url(manifest) + quote(path)
    metadata = query_hub(
        lambda: api.get_hf_file_metadata(url=url), manifest.name, str(api.token or "")
    )
    kind = KINDS.get(len(metadata.etag or ""))
    if metadata.size is None or kind is None:
        raise HubError(f"no size or hash of {path} from {constants.ENDPOINT}", hint=NOT_HUB)
    return ModelFile(path=path, size=metadata.size, **{kind: metadata.etag})


def query_hub(question: Callable[[], T], name: str, token: str | None) -> T:
    """Return the answer to `question`, asked again while the Hub is busy; raises HubError."""
    try:
        find_proxy()
    except ValueError as error:
        raise HubError(
            f"invalid proxy address in the environment: {error}", hint=PROXY_HINT
        ) from error
    for wait in (*WAITS, None):
        try:
            return ask_in_time(question)
        except errors.OfflineModeIsEnabled as error:
            raise HubError(
                "HF_HUB_OFFLINE is set: the Hub is not queried",
                hint="unset HF_HUB_OFFLINE, or set weights_source to a local folder",
            ) from error
        except errors.HTTPError as error:  # type: ignore[attr-defined] # imported there, not exported
            retry_after = parse_retry_after(error)
            if (
                wait is None
                or find_http_status(error) not in (None, *BUSY)
                or retry_after > PATIENCE
            ):
                problem, hint = explain_hub_error(error, name, has_token=bool(token))
                if hint == NO_NETWORK and _manifest_cache_path(name, "main").parent.is_dir():
                    hint = KEPT
                raise HubError(problem, hint=hint) from error
            time.sleep(max(wait, retry_after))
        except CLIENT_ERRORS as error:
            problem, hint = explain_client_error(error, name)
            raise HubError(problem, hint=hint) from error
    raise AssertionError  # the last attempt returned or raised
