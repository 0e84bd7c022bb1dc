"""A Hub on this machine: the HTTP API that `huggingface_hub` calls, reached by ``HF_ENDPOINT``.

Repositories with commits, small files by Git's SHA-1 and large ones by SHA-256 behind a redirect to
a second port (the CDN, which refuses a token, as signed URLs do), ranges, gated and private
repositories, and troubles to order: refusals, rate limits, slow and cut connections.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from typing import Self

from tests.doubles import hub_api

LARGE = (".safetensors", ".bin", ".gguf")
READER = "hf_reader"  # has accepted every licence
STRANGER = "hf_stranger"  # has accepted none
SCOPED = "hf_scoped"  # may not read gated repositories


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A failure of one request: a refusal, or a body that ends after `cut` bytes.

    A rate limit says when to come back by ``Retry-After``, or as the Hub does by `limit_ends`; a
    refusal says why by its `code` and `message`.
    """

    status: int = 0
    retry_after: int | None = None
    limit_ends: int | None = None  # s, as the Hub's own limits give it
    code: str = ""
    message: str = ""
    cut: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFile:
    """A file: `etag` is Git's SHA-1 of a small one, the SHA-256 of a large one."""

    path: str
    body: bytes
    etag: str
    git_sha1: str
    large: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A model repository at its only commit."""

    name: str
    commit: str
    entries: Mapping[str, HubFile]
    gated: bool = False
    private: bool = False


def _build_hub_file(path: str, body: bytes) -> HubFile:
    git = hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest()  # noqa: S324 - Git's
    large = path.endswith(LARGE)
    etag = hashlib.sha256(body).hexdigest() if large else git
    return HubFile(path=path, body=body, etag=etag, git_sha1=git, large=large)


@dataclass(slots=True)
class HubServer:
    """A running Hub; `sent` counts the bytes of files, `requests` names what was asked.

    As a mirror it may know no `heads` (HEAD requests), no `ranges`, or report no `sizes` and hashes
    in a listing; `moved` are old names of repositories, `branches` their other revisions.
    """

    heads: bool = True
    ranges: bool = True
    sizes: bool = True
    moved: dict[str, str] = field(default_factory=dict)
    branches: list[str] = field(default_factory=list)
    address: str = "127.0.0.1"
    rate: float | None = None  # bytes/s of each connection
    sent: int = 0
    requests: list[str] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    repositories: dict[str, Repository] = field(default_factory=dict)
    _servers: list[ThreadingHTTPServer] = field(default_factory=list)

    def __enter__(self) -> Self:
        for kind in (hub_api.Api, hub_api.Cdn):
            handler = type(kind.__name__, (kind,), {"hub": self})
            server = ThreadingHTTPServer((self.address, 0), handler)
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
            self._servers.append(server)
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    @property
    def url(self) -> str:
        """The value for HF_ENDPOINT."""
        return f"http://{self.address}:{self._servers[0].server_port}"

    @property
    def cdn(self) -> str:
        """The address of large files."""
        return f"http://{self.address}:{self._servers[1].server_port}"

    def add(
        self, name: str, files: Mapping[str, bytes], *, gated: bool = False, private: bool = False
    ) -> str:
        """Publish `files` as the only commit of repository `name`; return the commit."""
        entries = {path: _build_hub_file(path, body) for path, body in files.items()}
        listing = "".join(f"{path} {entries[path].etag}\n" for path in sorted(entries))
        commit = hashlib.sha1(listing.encode()).hexdigest()  # noqa: S324 - as Git names a commit
        self.repositories[name] = Repository(
            name=name, commit=commit, entries=entries, gated=gated, private=private
        )
        return commit

    def trouble(self, method: str) -> Trouble:
        """Return what goes wrong with the next GET; troubles come in the order given."""
        return self.troubles.pop(0) if self.troubles and method == "GET" else Trouble()

    def blob(self, etag: str) -> HubFile | None:
        """Return the large file that the CDN has under `etag`."""
        entries = (e for repo in self.repositories.values() for e in repo.entries.values())
        return next((entry for entry in entries if entry.large and entry.etag == etag), None)
