"""What the Hub says a model is, at one commit, and whether we may have it; by `huggingface_hub`.

The Hub is asked as little as can be: a manifest at a commit never changes, so it is asked for once
and kept, and in offline mode only kept manifests count.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TypeVar
from urllib.parse import quote

import huggingface_hub
from huggingface_hub import constants, errors
from huggingface_hub.utils import filter_repo_objects  # type: ignore[attr-defined]

from sparkfleet.errors import InputError
from sparkfleet.weights import manifest as manifests
from sparkfleet.weights.manifest import File, Manifest
from sparkfleet.weights.sources import HubSource

T = TypeVar("T")
WAITS = (0.5, 1, 2)  # s, between tries
PATIENCE = 60  # s that the Hub may ask us to wait
BUSY = (408, 429, 500, 502, 503, 504)
NO_TOKEN = "give a token that may read it: export HF_TOKEN=hf_..."  # noqa: S105 - no secret
SCOPE = "in the token's settings, allow: read access to public gated repos you can access"


class HubError(InputError):
    """The Hub does not give us a model: it is not there, not ours, or cannot be reached."""


def resolve(
    name: str, revision: str = "main", *, token: str | None = None, offline: bool = False
) -> Manifest:
    """Return the manifest of ``ORG/NAME`` at the commit that `revision` is now.

    Raises HubError, in offline mode also for a revision that was never resolved here.
    """
    known = kept(name, revision)
    if known is not None and (offline or revision == known.commit):
        return known
    if offline or constants.HF_HUB_OFFLINE:
        raise HubError(
            f"{name}@{revision} is not known here, and offline mode asks nobody",
            hint="run once with the network, or name a local folder: weights_source",
        )
    found = _fetch(name, revision, token)
    keep(found)
    return found


def select(
    manifest: Manifest, *, allow: Iterable[str] = (), ignore: Iterable[str] = ()
) -> Manifest:
    """Return `manifest` with only the files that match `allow` (all, if empty) and not `ignore`.

    Raises HubError if that leaves none.
    """
    wanted, unwanted = list(allow), list(ignore)
    files = filter_repo_objects(
        manifest.files,
        allow_patterns=wanted or None,
        ignore_patterns=unwanted or None,
        key=lambda file: file.path,
    )
    chosen = replace(manifest, files=tuple(files))
    if not chosen.files:
        patterns = ", ".join(wanted) or "any name"
        raise HubError(f"{manifest.name} has no file like {patterns} at {manifest.revision}")
    return chosen


def check_access(source: HubSource, path: str) -> None:
    """Raise HubError if the token of `source` may not download the file `path`.

    The listing of a gated model is public; only its files are not.
    """
    name = source.url.removeprefix(f"{constants.ENDPOINT}/").partition("/resolve/")[0]
    url, token = source.url + quote(path), source.token
    ask(lambda: huggingface_hub.get_hf_file_metadata(url, token=token or False), name, token)


def resolve_url(manifest: Manifest) -> str:
    """Return the address below which the Hub has the files of `manifest`."""
    return f"{constants.ENDPOINT}/{quote(manifest.name)}/resolve/{manifest.commit}/"


def token() -> str | None:
    """Return the user's token: HF_TOKEN, or what `hf auth login` saved."""
    return huggingface_hub.get_token()


def kept(name: str, revision: str) -> Manifest | None:
    """Return the manifest that was last resolved for `revision`, if any was."""
    path = _path(name, revision)
    return manifests.parse(path.read_text()) if path.is_file() else None


def keep(manifest: Manifest) -> None:
    """Remember `manifest` under its revision and its commit."""
    for revision in {manifest.revision, manifest.commit or ""} - {""}:
        path = _path(manifest.name, revision)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.{os.getpid()}")
        partial.write_text(manifests.text(replace(manifest, revision=revision)))
        partial.replace(path)


def _path(name: str, revision: str) -> Path:
    return manifests.cache() / "manifests" / quote(name, safe="") / quote(revision, safe="")


def _fetch(name: str, revision: str, token: str | None) -> Manifest:
    api = huggingface_hub.HfApi(token=token or False)
    info = ask(lambda: api.model_info(name, revision=revision, files_metadata=True), name, token)
    files = tuple(
        File(
            path=_safe(row.rfilename, name),
            size=row.size or 0,
            sha256=row.lfs.sha256 if row.lfs else None,
            git_sha1=None if row.lfs else row.blob_id,
        )
        for row in info.siblings or ()
    )
    return Manifest(name=name, commit=info.sha, revision=revision, files=files)


def _safe(path: str, name: str) -> str:
    if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise HubError(f"{name} lists a file outside itself: {path!r}")
    return path


def ask(question: Callable[[], T], name: str, token: str | None) -> T:
    """Return the answer to `question`, asked again while the Hub is busy; raises HubError."""
    for wait in (*WAITS, None):
        try:
            return question()
        except errors.OfflineModeIsEnabled as error:
            raise HubError("HF_HUB_OFFLINE is set, and offline mode asks nobody") from error
        except errors.HTTPError as error:  # type: ignore[attr-defined]
            response = getattr(error, "response", None)
            status = response.status_code if response is not None else None
            asked = rest(response.headers) if response is not None else 0
            if wait is None or status not in (None, *BUSY) or asked > PATIENCE:
                raise _refusal(error, name, has_token=bool(token)) from error
            time.sleep(max(wait, asked))
    raise AssertionError  # the last attempt returned or raised


def rest(headers: Mapping[str, str]) -> int:
    """Return the seconds after which a busy Hub wants to be asked again; 0 where it says none.

    The Hub's limits of requests stand in ``RateLimit: "api";r=0;t=55``: r are left, in t s all.
    """
    after = headers.get("Retry-After", "")
    limit = re.search(r";\s*r=0\s*;\s*t=(\d+)", headers.get("RateLimit", ""))
    return int(after) if after.isdigit() else int(limit[1]) if limit else 0


def _refusal(error: Exception, name: str, *, has_token: bool) -> HubError:
    page, settings = f"{constants.ENDPOINT}/{name}", f"{constants.ENDPOINT}/settings/tokens"
    accept = f"accept its licence on {page}"
    response = getattr(error, "response", None)
    if response is None:
        return _unreachable(error, name)
    said = response.headers.get("X-Error-Message", "")
    match error:
        case errors.RevisionNotFoundError():
            return HubError(f"{name} has no such revision", hint=f"see {page}/commits/main")
        case errors.GatedRepoError() if not has_token:
            return HubError(f"{name} is gated, and there is no token", hint=f"{accept}; {NO_TOKEN}")
        case errors.GatedRepoError():
            return HubError(f"{name} is gated, and not granted to this token's owner", hint=accept)
        case errors.RepositoryNotFoundError():
            hint = f"check its name on {page}" + ("" if has_token else f"; if private, {NO_TOKEN}")
            return HubError(f"the Hub shows us no model {name}", hint=hint)
    if response.status_code == 401:
        return HubError("the Hub does not accept this token", hint=f"make a new one: {settings}")
    if response.status_code == 403:
        return HubError(f"this token may not read {name}: {said}", hint=f"{SCOPE}: {settings}")
    after = rest(response.headers)
    hint = f"try again in {after} s" if after else "try later"
    if response.status_code == 429 and not has_token:
        hint += "; with a token it allows more: export HF_TOKEN=hf_..."
    return HubError(f"the Hub answered {response.status_code} for {name} {said}", hint=hint)


def _unreachable(error: Exception, name: str) -> HubError:
    hint = "no network? name a local folder: weights_source"
    if _path(name, "main").parent.is_dir():
        hint = "no network? what was resolved before still counts: --set weights_offline=true"
    return HubError(f"cannot reach the Hub at {constants.ENDPOINT} ({error})", hint=hint)
