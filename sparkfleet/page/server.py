"""A small server for a few read-only pages, over HTTP/1.1 and Server-Sent Events.

It runs in a thread of its own. No client is waited for: a request has `REQUEST_LIMIT` s to arrive
and `ANSWER_LIMIT` s to be taken, and where too many are in progress the oldest is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

from sparkfleet.errors import UsageError
from sparkfleet.page.access import Access
from sparkfleet.variables.binding import Binding

MAX_REQUESTS = 32  # in progress at the same time
MAX_STREAMS = 16  # browsers that follow the page
MAX_HEADER = 8192  # bytes of a request's lines
REQUEST_LIMIT = 5.0  # seconds
ANSWER_LIMIT = 20.0  # seconds
QUIET = 15.0  # seconds without an event until a comment shows a stream that the server lives
EVENTS = "/events"
REALM = 'Basic realm="sparkfleet page, any user, the token as password", charset="UTF-8"'
COMMON = {
    "Cache-Control": "no-store",
    "Connection": "close",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """The answer to a path: its media type, its bytes, and further headers."""

    kind: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edition:
    """One state of all that is served: resources by path, and the text of the event."""

    number: int = 0
    resources: Mapping[str, Resource] = field(default_factory=dict)
    event: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The head of a request; the names of `headers` are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]


class RequestError(Exception):
    """A request that is refused, with a status."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class PageServer:
    """Serves the newest edition that was published; `with` starts and ends it.

    Raises UsageError where the address cannot be used.
    """

    def __init__(self, binding: Binding, access: Access) -> None:
        self._binding = binding
        self._access = access
        self._edition = Edition()
        self._fresh: asyncio.Event = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="page")
        self._requests: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._streams: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._server = self._call(self._listen())
        except OSError as error:
            self._stop_loop()
            raise UsageError(
                f"--bind {self._binding}: {error.strerror or error}",
                hint="name another address or port: --bind ADDRESS:PORT",
            ) from None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(TimeoutError):
            self._call(self._end())
        self._stop_loop()

    @property
    def binding(self) -> Binding:
        """The address in use, with the port that was chosen for 0."""
        assert self._server is not None  # noqa: S101 - for mypy: it has been started
        address, port, *_ = self._server.sockets[0].getsockname()
        return Binding(address=address, port=port)

    def publish(self, resources: Mapping[str, Resource], event: str) -> None:
        """Serve `resources` from now on, and send `event` to each browser that follows the page."""
        self._loop.call_soon_threadsafe(self._replace, resources, event)

    def _replace(self, resources: Mapping[str, Resource], event: str) -> None:
        number = self._edition.number + 1
        self._edition = Edition(number=number, resources=resources, event=event)
        self._fresh.set()
        self._fresh = asyncio.Event()

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=ANSWER_LIMIT)

    def _stop_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(
            self._accept, self._binding.address, self._binding.port, limit=MAX_HEADER
        )

    async def _end(self) -> None:
        if self._server is not None:
            self._server.close()
        tasks = [*self._requests, *self._streams]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # for what those tasks have cancelled

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a connection; where too many requests are in progress, drop the oldest."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - for mypy: asyncio made it
        while len(self._requests) >= MAX_REQUESTS:
            oldest = next(iter(self._requests))
            self._requests.pop(oldest).transport.abort()
            oldest.cancel()
        self._requests[task] = writer
        writer.transport.set_write_buffer_limits(high=0)  # sent means taken by the client
        try:
            await self._answer(reader, writer, task)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._requests.pop(task, None)
            self._streams.discard(task)
            writer.close()

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, task: asyncio.Task[None]
    ) -> None:
        try:
            async with asyncio.timeout(REQUEST_LIMIT):
                request = await read_request(reader)
            if request.path == EVENTS and request.method == "GET":
                self._begin_stream(request, task)
                await self._stream(reader, writer)
                return
            resource = self._find(request)
            head = request.method == "HEAD"
            await _send(writer, format_answer(HTTPStatus.OK, resource, with_body=not head))
        except RequestError as error:
            await _send(writer, format_refusal(error.status))

    def _begin_stream(self, request: Request, task: asyncio.Task[None]) -> None:
        """Count a request as a stream; raises RequestError where it is refused."""
        self._check(request)
        if len(self._streams) >= MAX_STREAMS:
            raise RequestError(HTTPStatus.SERVICE_UNAVAILABLE)
        self._requests.pop(task, None)
        self._streams.add(task)

    def _check(self, request: Request) -> None:
        if not self._access.knows_host(request.headers):
            raise RequestError(HTTPStatus.MISDIRECTED_REQUEST)
        if not self._access.admits(request.headers):
            raise RequestError(HTTPStatus.UNAUTHORIZED)
        if request.method not in ("GET", "HEAD"):
            raise RequestError(HTTPStatus.METHOD_NOT_ALLOWED)

    def _find(self, request: Request) -> Resource:
        self._check(request)
        if not self._edition.number:
            raise RequestError(HTTPStatus.SERVICE_UNAVAILABLE)  # the first look is not finished
        resource = self._edition.resources.get(request.path)
        if resource is None:
            raise RequestError(HTTPStatus.NOT_FOUND)
        return resource

    async def _stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send each edition until the browser leaves; a slow one misses those in between."""
        ended = asyncio.create_task(reader.read(1))
        try:
            await _send(writer, format_head(HTTPStatus.OK, "text/event-stream; charset=utf-8"))
            while not ended.done():
                edition = self._edition
                fresh = self._fresh
                await _send(writer, format_stream_event(edition))
                while not (fresh.is_set() or ended.done()):
                    await _wait_quietly(fresh, ended)
                    if not (fresh.is_set() or ended.done()):
                        await _send(writer, b": still here\n\n")
        finally:
            ended.cancel()


async def read_request(reader: asyncio.StreamReader) -> Request:
    """Return the head of a request; raises RequestError for one that is not HTTP."""
    try:
        text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.LimitOverrunError:
        raise RequestError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE) from None
    first, *lines = text.rstrip("\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1.") or not words[1].startswith("/"):
        raise RequestError(HTTPStatus.BAD_REQUEST)
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    return Request(method=words[0], path=words[1].partition("?")[0], headers=headers)


def format_head(status: HTTPStatus, kind: str, headers: Mapping[str, str] | None = None) -> bytes:
    """Return the head of an answer."""
    every = {"Content-Type": kind, **COMMON, **(headers or {})}
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", *(f"{k}: {v}" for k, v in every.items())]
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1")


def format_answer(status: HTTPStatus, resource: Resource, *, with_body: bool = True) -> bytes:
    """Return a whole answer."""
    headers = {"Content-Length": str(len(resource.body)), **resource.headers}
    return format_head(status, resource.kind, headers) + (resource.body if with_body else b"")


def format_refusal(status: HTTPStatus) -> bytes:
    """Return the answer to a request that is refused."""
    headers = {
        HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": REALM},
        HTTPStatus.METHOD_NOT_ALLOWED: {"Allow": "GET, HEAD"},
        HTTPStatus.SERVICE_UNAVAILABLE: {"Retry-After": "10"},
    }.get(status, {})
    body = f"{status.value} {status.phrase}\n".encode()
    resource = Resource(kind="text/plain; charset=utf-8", body=body, headers=headers)
    return format_answer(status, resource)


def format_stream_event(edition: Edition) -> bytes:
    """Return an edition as a Server-Sent Event.

    Its lines end as https://html.spec.whatwg.org/multipage/server-sent-events.html says.
    """
    text = edition.event.replace("\r\n", "\n").replace("\r", "\n")
    lines = "".join(f"data: {line}\n" for line in text.split("\n"))
    return f"retry: 3000\nid: {edition.number}\n{lines}\n".encode()


async def _wait_quietly(fresh: asyncio.Event, ended: asyncio.Task[bytes]) -> None:
    """Wait for a new edition or the end of the stream, `QUIET` s at most."""
    waiting = asyncio.create_task(fresh.wait())
    try:
        await asyncio.wait((ended, waiting), timeout=QUIET, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Send `data`; raises TimeoutError for a client that does not take it."""
    writer.write(data)
    async with asyncio.timeout(ANSWER_LIMIT):
        await writer.drain()
