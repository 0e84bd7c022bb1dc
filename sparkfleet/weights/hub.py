"""What the Hub says a model is, at one commit, and whether we may have it; by `huggingface_hub`.

The Hub is asked as little as can be: a manifest at a commit never changes, so it is asked for once
and kept, and in offline mode only kept manifests count.
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
    digits,
    is_below,
    safe_path,
    shortened,
)
from sparkfleet.weights import manifest as manifests
from sparkfleet.weights.manifest import Chosen, File, Manifest
from sparkfleet.weights.refusals import (
    FAULTS,
    NO_NETWORK,
    NO_TOKEN,
    NOT_HUB,
    SEE,
    fault,
    proxy,
    refusal,
    rest,
    status_of,
)
from sparkfleet.weights.sources import HubSource

T = TypeVar("T")
WAITS = (0.5, 1, 2)  # s, between tries
PATIENCE = 60  # s that the Hub may ask us to wait
BUSY = (408, 429, 500, 502, 503, 504)
KEPT = "no network? what was resolved before still counts: --set weights_offline=true"
NO_HEAD = (405, 501)  # a mirror that answers GET only
KINDS = {SHA256: "sha256", GIT: "git_sha1"}  # by the digits of an ETag


class HubError(InputError):
    """The Hub does not give us a model: it is not there, not ours, or cannot be reached."""


def is_offline() -> bool:
    """Say whether the user's environment forbids to ask the Hub: HF_HUB_OFFLINE."""
    return bool(constants.HF_HUB_OFFLINE)


def resolve(
    name: str, revision: str = "main", *, token: str | None = None, offline: bool = False
) -> Manifest:
    """Return the manifest of ``ORG/NAME`` at the commit that `revision` is now.

    Raises HubError, in offline mode also for a revision that was never resolved here.
    """
    _check_name(name, revision)
    offline = offline or is_offline()
    known = kept(name, revision)
    if known is not None and (offline or revision == known.commit):
        return known
    if offline:
        raise HubError(
            f"{name}@{revision} is not known here, and offline mode asks nobody",
            hint="run once with the network, or name a local folder: weights_source",
        )
    found = _fetch(name, revision, token)
    keep(found)
    return found


def _check_name(name: str, revision: str) -> None:
    if not is_below(revision):
        raise HubError(
            f"{shortened(revision)} is no revision of {name}",
            hint="name a branch, a tag or a commit: weights_revision",
        )
    try:
        validate_repo_id(name)
    except errors.HFValidationError as error:
        raise HubError(
            f"{name!r} is no name of a model of the Hub",
            hint="write ORG/NAME alone: a revision goes in weights_revision, a quantization of "
            "GGUF in weights_allow, a folder of this machine in weights_source",
        ) from error


def select(
    manifest: Manifest, *, allow: Collection[str] = (), ignore: Collection[str] = ()
) -> Manifest:
    """Return `manifest` with only the files that match `allow` (all, if empty) and not `ignore`.

    Raises HubError if that leaves none.
    """
    wanted = chooser(allow, ignore)
    chosen = replace(manifest, files=tuple(file for file in manifest.files if wanted(file.path)))
    if not chosen.files:
        patterns = ", ".join(allow) or "any name"
        raise HubError(f"{manifest.name} has no file like {patterns} at {manifest.revision}")
    return chosen


def chooser(allow: Collection[str], ignore: Collection[str]) -> Chosen:
    """Return what says whether a file matches `allow` (any does, if empty) and not `ignore`."""

    def chosen(path: str) -> bool:
        allowed, ignored = list(allow) or None, list(ignore) or None
        return any(filter_repo_objects([path], allow_patterns=allowed, ignore_patterns=ignored))

    return chosen


def check_access(source: HubSource, path: str) -> None:
    """Raise HubError if the token of `source` may not download the file `path`.

    The listing of a gated model is public; only its files are not.
    """
    name = source.url.removeprefix(f"{constants.ENDPOINT}/").partition("/resolve/")[0]
    url, token = source.url + quote(path), source.token
    try:
        ask(lambda: huggingface_hub.get_hf_file_metadata(url, token=token or False), name, token)
    except HubError as error:
        if status_of(error.__cause__) not in NO_HEAD:
            raise


def resolve_url(manifest: Manifest) -> str:
    """Return the address below which the Hub has the files of `manifest`."""
    return f"{constants.ENDPOINT}/{quote(manifest.name)}/resolve/{manifest.commit}/"


def token() -> str | None:
    """Return the user's token: HF_TOKEN, or what `hf auth login` saved.

    Raises HubError for a file that cannot be read, and for what cannot be a token.
    """
    try:
        found = huggingface_hub.get_token()
    except (OSError, ValueError) as error:
        problem = f"cannot read the token in {constants.HF_TOKEN_PATH}: {error}"
        raise HubError(problem, hint=NO_TOKEN) from error
    if found and not (found.isascii() and found.isprintable()):
        raise HubError("HF_TOKEN holds signs that no token has", hint=NO_TOKEN)
    return found


def kept(name: str, revision: str) -> Manifest | None:
    """Return the manifest that was last resolved for `revision`, if any was."""
    with contextlib.suppress(OSError, ValueError):  # none, or what a power cut left of it
        return manifests.parse(_path(name, revision).read_text())
    return None


def keep(manifest: Manifest) -> None:
    """Remember `manifest` under its revision and its commit, if this user's cache can take it."""
    for revision in {manifest.revision, manifest.commit or ""} - {""}:
        path = _path(manifest.name, revision)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(f"{path.name}.{os.getpid()}")
            partial.write_text(manifests.text(replace(manifest, revision=revision)))
            partial.replace(path)


def _path(name: str, revision: str) -> Path:
    return manifests.cache() / "manifests" / quote(name, safe="") / quote(revision, safe="")


def _fetch(name: str, revision: str, token: str | None) -> Manifest:
    api = huggingface_hub.HfApi(token=token or False)
    info = ask(lambda: api.model_info(name, revision=revision, files_metadata=True), name, token)
    if not info.sha or not info.siblings:
        raise HubError(f"{constants.ENDPOINT} tells no commit or no files of {name}", hint=NOT_HUB)
    try:
        commit = digits("commit id", info.sha, GIT)  # before anything is asked by it
        files = tuple(_file(api, name, commit, row) for row in info.siblings)
        return Manifest(name=name, commit=commit, revision=revision, files=files)
    except UnexpectedError as error:
        problem = error.told(f" of {name} from {constants.ENDPOINT}")
        raise HubError(problem, hint=NOT_HUB) from error


def _file(api: huggingface_hub.HfApi, name: str, commit: str, row: RepoSibling) -> File:
    if row.size is None or not (row.lfs or row.blob_id):
        return _ask_for(api, name, commit, safe_path("file name", row.rfilename))
    known = {"sha256": row.lfs.sha256} if row.lfs else {"git_sha1": row.blob_id}
    return File(path=row.rfilename, size=row.size, **known)


def _ask_for(api: huggingface_hub.HfApi, name: str, commit: str, path: str) -> File:
    """Ask for the size and the hash of one file, which the listing of a mirror does not tell."""
    url = resolve_url(Manifest(name=name, commit=commit, files=())) + quote(path)
    found = ask(lambda: api.get_hf_file_metadata(url=url), name, str(api.token or ""))
    kind = KINDS.get(len(found.etag or ""))
    if found.size is None or kind is None:
        raise HubError(f"{constants.ENDPOINT} tells no size or no hash of {path}", hint=NOT_HUB)
    return File(path=path, size=found.size, **{kind: found.etag})


def ask(question: Callable[[], T], name: str, token: str | None) -> T:
    """Return the answer to `question`, asked again while the Hub is busy; raises HubError."""
    try:
        proxy()
    except ValueError as error:
        raise HubError(f"a proxy of this environment is no address: {error}", hint=SEE) from error
    for wait in (*WAITS, None):
        try:
            return question()
        except errors.OfflineModeIsEnabled as error:
            raise HubError("HF_HUB_OFFLINE is set, and offline mode asks nobody") from error
        except errors.HTTPError as error:  # type: ignore[attr-defined] # the same
            asked = rest(error)
            if wait is None or status_of(error) not in (None, *BUSY) or asked > PATIENCE:
                problem, hint = refusal(error, name, has_token=bool(token))
                if hint == NO_NETWORK and _path(name, "main").parent.is_dir():
                    hint = KEPT
                raise HubError(problem, hint=hint) from error
            time.sleep(max(wait, asked))
        except FAULTS as error:
            problem, hint = fault(error, name)
            raise HubError(problem, hint=hint) from error
    raise AssertionError  # the last attempt returned or raised
