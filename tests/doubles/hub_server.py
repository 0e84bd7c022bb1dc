"""A Hub on this machine: the HTTP API that `huggingface_hub` calls, reached by ``HF_ENDPOINT``.

Repositories with commits, small files by Git's SHA-1 and large ones by SHA-256 behind a redirect to
a second port (the CDN, which refuses a token, as signed URLs do), ranges, gated and private
repositories, and troubles to order: refusals, rate limits, slow and cut connections.
"""

from __future__ import annotations

import hashlib
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import quote, unquote, urlsplit

import huggingface_hub

PIECE = 64 * 1024  # bytes written at once, so that a limit of the rate is smooth
POINTER = 134  # bytes of the LFS pointer that Git holds in a large file's place
READER = "hf_reader"  # has accepted every licence
STRANGER = "hf_stranger"  # has accepted none
SCOPED = "hf_scoped"  # may not read gated repositories
LARGE = (".safetensors", ".bin", ".gguf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A fault for one request: a refusal, or a body that ends after `cut` bytes.

    A rate limit says when to come back by ``Retry-After``, or as the Hub does by `limit_ends`; a
    refusal says why by its `code` and `message`.
    """

    status: int = 0
    retry_after: int | None = None
    limit_ends: int | None = None  # seconds, as the Hub reports its limits
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

    As a mirror it may lack `heads` (HEAD requests), `ranges`, or the `sizes` and hashes in a
    listing; `moved` are old names of repositories, `branches` their other revisions.
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
    _servers: list[ConnectionTrackingServer] = field(default_factory=list)

    def __enter__(self) -> Self:
        for kind in (Api, Cdn):
            handler = type(kind.__name__, (kind,), {"hub": self})
            server = ConnectionTrackingServer((self.address, 0), handler)
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
            self._servers.append(server)
        return self

    def __exit__(self, *_: object) -> None:
        huggingface_hub.close_session()  # its pool would keep connections of this process open
        for server in self._servers:
            server.shutdown()
            server.close_connections()
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


class ConnectionTrackingServer(ThreadingHTTPServer):
    """Can close the connections that clients keep open, and waits for their threads."""

    daemon_threads = False

    def __init__(self, address: tuple[str, int], handler: type[HubHandler]) -> None:
        super().__init__(address, handler)
        self.connections: list[socket.socket] = []

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection."""
        connection, address = super().get_request()
        self.connections.append(connection)
        return connection, address

    def close_connections(self) -> None:
        """End every connection, so that the thread behind it ends."""
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class HubHandler(BaseHTTPRequestHandler):
    """Troubles, ranges and the rate limit, for both the API and the CDN."""

    hub: HubServer
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        """Answer as to a GET, without the body."""
        if self.hub.heads:
            self.do_GET()
        else:
            self.answer(HTTPStatus.METHOD_NOT_ALLOWED)

    def do_GET(self) -> None:
        """Answer, or be the trouble that was ordered for this request."""
        self.hub.requests.append(f"{self.command} {self.path}")
        path = unquote(urlsplit(self.path).path)
        trouble = self.hub.trouble(self.command)
        if trouble.status:
            self.answer(trouble.status, headers=_trouble_headers(trouble))
        else:
            self.route(path, trouble)

    def route(self, path: str, trouble: Trouble) -> None:
        """Answer a request for `path`."""
        raise NotImplementedError

    def answer(
        self, status: int, body: bytes = b"", *, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a whole answer."""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def refuse(self, status: int, code: str, message: str) -> None:
        """Refuse, with the headers in which the client finds the reason."""
        headers = {"X-Error-Code": code, "X-Error-Message": message}
        self.answer(status, headers={name: value for name, value in headers.items() if value})

    def give(self, content: bytes, trouble: Trouble, headers: Mapping[str, str]) -> None:
        """Send a file, or the range of it that was asked for."""
        range_header = self.headers.get("Range", "") if self.hub.ranges else ""
        byte_range = re.fullmatch(r"bytes=(\d+)-(\d*)", range_header)
        first = int(byte_range[1]) if byte_range else 0
        last = int(byte_range[2]) if byte_range and byte_range[2] else len(content) - 1
        if first >= len(content) > 0:
            self.answer(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
            return
        body = memoryview(content)[first : last + 1]
        self.send_response(HTTPStatus.PARTIAL_CONTENT if byte_range else HTTPStatus.OK)
        for name, value in headers.items():
            self.send_header(name, value)
        if byte_range:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.close_connection = trouble.cut is not None
            try:
                self._pour(body if trouble.cut is None else body[: trouble.cut])
            except ConnectionError:  # the client closed the connection
                self.close_connection = True

    def _pour(self, body: memoryview) -> None:
        for start in range(0, len(body), PIECE):
            piece = body[start : start + PIECE]
            self.wfile.write(piece)
            self.hub.sent += len(piece)
            if self.hub.rate:
                time.sleep(len(piece) / self.hub.rate)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Api(HubHandler):
    """The Hub itself."""

    def route(self, path: str, trouble: Trouble) -> None:
        """Find what answers `path`, and whether this client may have it."""
        for pattern, work in ROUTES:
            if match := re.fullmatch(pattern, path):
                name, *rest = match.groups()
                if name in self.hub.moved:
                    there = self.path.replace(name, self.hub.moved[name], 1)
                    self.answer(HTTPStatus.TEMPORARY_REDIRECT, headers={"Location": there})
                elif repository := self.admit(name, listing=path.startswith("/api/models/")):
                    work(self, repository, rest[-1] if rest else "", trouble)
                return
        self.answer(HTTPStatus.NOT_FOUND)

    def admit(self, name: str, *, listing: bool) -> Repository | None:
        """Return the repository if this request may see it, else answer as the Hub does."""
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        repository = self.hub.repositories.get(name)
        if token and token not in (READER, STRANGER, SCOPED):
            self.refuse(401, "", "Invalid credentials in Authorization header")
        elif repository is None or (repository.private and token != READER):
            self.refuse(404 if token else 401, "RepoNotFound", "Repository not found")
        elif not repository.gated or listing or token == READER:
            return repository
        elif not token:
            self.refuse(401, "GatedRepo", f"Access to model {name} is restricted. Please log in.")
        elif token == SCOPED:
            self.refuse(403, "", SCOPE)
        else:
            self.refuse(403, "GatedRepo", f"Access to model {name} is restricted.")
        return None

    def info(self, repository: Repository, revision: str, _: Trouble) -> None:
        """Answer ``/api/models/<name>``, with sizes and hashes."""
        if revision not in ("", "main", repository.commit, *self.hub.branches):
            self.refuse(404, "RevisionNotFound", "Invalid rev id")
            return
        reply = {
            "id": repository.name,
            "sha": repository.commit,
            "gated": "manual" if repository.gated else False,
            "private": repository.private,
            "siblings": [
                _describe_sibling(entry) if self.hub.sizes else {"rfilename": entry.path}
                for entry in repository.entries.values()
            ],
        }
        self.answer(HTTPStatus.OK, json.dumps(reply).encode(), headers=JSON)

    def tree(self, repository: Repository, _: str, __: Trouble) -> None:
        """Answer ``/api/models/<name>/tree``: all files of the commit."""
        rows = []
        for entry in repository.entries.values():
            size = len(entry.body)
            row = {"type": "file", "path": entry.path, "size": size, "oid": entry.git_sha1}
            lfs = {"oid": entry.etag, "size": size, "pointerSize": POINTER}
            rows.append({**row, "lfs": lfs} if entry.large else row)
        self.answer(HTTPStatus.OK, json.dumps(rows).encode(), headers=JSON)

    def resolve(self, repository: Repository, path: str, _: Trouble) -> None:
        """Redirect to where a file's bytes are."""
        entry = repository.entries.get(path)
        if entry is None:
            self.refuse(404, "EntryNotFound", "Entry not found")
            return
        cached = f"/api/resolve-cache/models/{repository.name}/{repository.commit}/{quote(path)}"
        headers = {
            "X-Repo-Commit": repository.commit,
            "X-Linked-Size": str(len(entry.body)),
            "X-Linked-Etag": f'"{entry.etag}"',
            "Location": f"{self.hub.cdn}/{entry.etag}" if entry.large else cached,
        }
        self.answer(302 if entry.large else 307, headers=headers)

    def cached(self, repository: Repository, path: str, trouble: Trouble) -> None:
        """Send a small file."""
        entry = repository.entries[path]
        headers = {"X-Repo-Commit": repository.commit, "ETag": f'"{entry.etag}"'}
        self.give(entry.body, trouble, headers)


class Cdn(HubHandler):
    """Large files, by their hash."""

    def route(self, path: str, trouble: Trouble) -> None:
        """Send a large file; refuse a token, as S3 refuses two ways to authenticate."""
        entry = self.hub.blob(path[1:])
        if self.headers.get("Authorization"):
            self.answer(HTTPStatus.BAD_REQUEST)
        elif entry is None:
            self.answer(HTTPStatus.NOT_FOUND)
        else:
            self.give(entry.body, trouble, {"ETag": f'"{entry.etag}"'})


def _trouble_headers(trouble: Trouble) -> dict[str, str]:
    headers = {"X-Error-Code": trouble.code, "X-Error-Message": trouble.message}
    if trouble.retry_after is not None:
        headers["Retry-After"] = str(trouble.retry_after)
    if trouble.limit_ends is not None:
        headers["RateLimit"] = f'"api";r=0;t={trouble.limit_ends}'
    return {name: value for name, value in headers.items() if value}


def _describe_sibling(entry: HubFile) -> dict[str, Any]:
    size = len(entry.body)
    row = {"rfilename": entry.path, "size": size, "blobId": entry.git_sha1}
    lfs = {"sha256": entry.etag, "size": size, "pointerSize": POINTER}
    return {**row, "lfs": lfs} if entry.large else row


REPO = r"([^/]+(?:/[^/]+)?)"
JSON = {"Content-Type": "application/json"}
SCOPE = (
    "Please enable access to public gated repositories in your fine-grained token settings to view"
    " this repository."
)
ROUTES: tuple[tuple[str, Callable[[Api, Repository, str, Trouble], None]], ...] = (
    (rf"/api/models/{REPO}/revision/(.+)", Api.info),
    (rf"/api/models/{REPO}/tree/(.+)", Api.tree),
    (rf"/api/models/{REPO}", Api.info),
    (rf"/api/resolve-cache/models/{REPO}/[0-9a-f]{{40}}/(.+)", Api.cached),
    (rf"/{REPO}/resolve/[^/]+/(.+)", Api.resolve),
)
