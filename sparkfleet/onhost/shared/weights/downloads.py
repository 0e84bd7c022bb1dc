"""Files of the Hub, or of a mirror of it, as a stream of bytes that goes on where it broke off."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit

PIECE = 1 << 20  # bytes read at once
TRIES = 8  # in a row with less than `MIN_PROGRESS` bytes
MIN_PROGRESS = 64 << 10  # bytes that have to come in each `WINDOW`, and that make a try count
WINDOW = 60.0  # seconds; the time for the headers of an answer too
SCHEMES = ("http", "https")
LICENCE = (
    "accept the licence, and set a token that can read it; a mirror's redirect drops the token"
)
BARRED = "large files come from there: allow it in the proxy or firewall of this host"
TRUST = (
    "check the clock of this host; if a proxy intercepts TLS, install its CA: "
    "update-ca-certificates"
)
GONE = "the file is missing at that commit, or incomplete: check weights_revision and HF_ENDPOINT"


class DownloadError(Exception):
    """A download that failed for good; `args` are the problem and the fix."""


def prefer_ipv4() -> None:
    """Try IPv4 addresses first: an IPv6 route that leads nowhere costs 30 s for each address."""
    resolve = socket.getaddrinfo

    def ordered(*args: Any, **kwargs: Any) -> Any:
        return sorted(resolve(*args, **kwargs), key=lambda entry: entry[0] != socket.AF_INET)

    socket.getaddrinfo = ordered


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects; the token goes only to the host for which it was given."""

    def redirect_request(self, req: Any, *args: Any) -> Any:
        """Return the next request, of which the first remembers where it `led`."""
        where = str(args[-1])
        if urlsplit(where).scheme not in SCHEMES:  # the library would follow ftp
            args[0].close()
            raise DownloadError(f"a redirect leads to {where[:200]}, not to http or https", GONE)
        following: Any = super().redirect_request(req, *args)
        following.first = getattr(req, "first", req)
        following.first.led = following.full_url
        token = req.unredirected_hdrs.get("Authorization")
        here = urlsplit(req.full_url)  # `host` is a proxy's, if there is one
        if token and urlsplit(following.full_url)[:2] == here[:2]:
            following.add_unredirected_header("Authorization", token)
        return following

    http_error_308 = urllib.request.HTTPRedirectHandler.http_error_302  # Python < 3.11


class Timed:
    """A connection that is cut where the headers of an answer do not come in time."""

    sock: Any

    def getresponse(self) -> Any:
        """Return the answer, once its headers are here."""
        timer = threading.Timer(WINDOW, cut_connection, (self.sock,))
        timer.daemon = True
        timer.start()
        try:
            return super().getresponse()  # type: ignore[misc] # of the class next to it
        finally:
            timer.cancel()


def cut_connection(wire: socket.socket) -> None:
    """End a connection, so that its reader goes on."""
    with contextlib.suppress(OSError):
        socket.socket.shutdown(wire, socket.SHUT_RDWR)


class TimedConnection(Timed, http.client.HTTPConnection):
    """A timed connection without TLS."""


class TimedTlsConnection(Timed, http.client.HTTPSConnection):
    """A timed connection with TLS."""


class TimedHttp(urllib.request.HTTPHandler):
    """Opens URLs of http."""

    def http_open(self, req: Any) -> Any:
        """Return the answer to a request."""
        return self.do_open(TimedConnection, req)


class TimedHttps(urllib.request.HTTPSHandler):
    """Opens URLs of https."""

    def https_open(self, req: Any) -> Any:
        """Return the answer to a request."""
        return self.do_open(TimedTlsConnection, req)


class HubFiles:
    """Files of the Hub, at one commit."""

    def __init__(self, hub: dict[str, str], files: dict[str, dict[str, Any]]) -> None:
        self.hub = hub
        self.files = files
        self.opener = urllib.request.build_opener(Redirects, TimedHttp, TimedHttps)

    def send(self, wire: socket.socket, blob: str, offset: int) -> int:
        """Send file `blob` from byte `offset` on."""
        size: int = self.files[blob]["size"]
        for piece in self._pieces(self.files[blob]["name"], offset, size):
            wire.sendall(piece)
        return size - offset

    def forget(self, blob: str) -> None:
        """Do nothing: files of the Hub are not in the page cache of this host."""

    def _pieces(self, name: str, offset: int, size: int) -> Iterator[bytes]:
        """Yield the rest of a file; where the hub breaks off, ask it for what is still lacking."""
        failures = 0
        while offset < size:
            reason = "the server closed the connection"
            wait = 0.0
            begin = offset
            request = self._request(name, offset)
            try:
                with self._open(request, offset) as reply:
                    for piece in read_steadily(reply, size - offset):
                        offset += len(piece)
                        if offset - begin >= MIN_PROGRESS:
                            failures = 0
                        yield piece
            except (OSError, http.client.HTTPException) as error:
                reason, wait = explain_download_error(error, name, describe_route(request.led))
            failures += 1
            if failures > TRIES:
                hint = (
                    "try again later; if this host cannot reach it, set weights_source to a local "
                    "folder"
                )
                raise DownloadError(f"download of {name} failed: {reason}", hint)
            if failures > 1 or wait:
                time.sleep(wait or min(0.1 * 2**failures, 30))

    def _request(self, name: str, offset: int) -> Any:
        url = self.hub["url"] + quote(name)
        request: Any = urllib.request.Request(url, headers={"Range": f"bytes={offset}-"})
        request.led = url
        if self.hub["token"]:
            request.add_unredirected_header("Authorization", f"Bearer {self.hub['token']}")
        return request

    def _open(self, request: Any, offset: int) -> Any:
        reply = self.opener.open(request, timeout=30)
        if offset and reply.status != http.client.PARTIAL_CONTENT:  # a mirror without ranges
            for _ in read_steadily(reply, offset):
                pass
        return reply


def read_steadily(reply: Any, count: int) -> Iterator[bytes]:
    """Yield the next `count` bytes, fewer where it ends; raise TimeoutError where it is too slow.

    A limit of the socket counts anew with each byte.
    """
    begun = time.monotonic()
    came = 0
    while count and (piece := reply.read1(min(PIECE, count))):
        count -= len(piece)
        came += len(piece)
        yield piece
        if time.monotonic() - begun > WINDOW:
            if came < MIN_PROGRESS:
                raise TimeoutError(f"only {came} bytes arrived within {WINDOW:.0f} s")
            begun = time.monotonic()
            came = 0


def describe_route(url: str) -> str:
    """Return the host in `url`, and the proxy on the way there, without its password."""
    there = urlsplit(url)
    proxy = urllib.request.getproxies().get(there.scheme, "")
    if not proxy or urllib.request.proxy_bypass(there.netloc):
        return there.netloc
    host = (proxy.partition("://")[2] or proxy).rpartition("@")[2].rstrip("/")
    return f"{there.netloc} through the proxy {host}"


def explain_download_error(error: Exception, name: str, at: str) -> tuple[str, float]:
    """Return the problem and the seconds to wait; raise DownloadError if a retry cannot help."""
    cause = getattr(error, "reason", error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        raise DownloadError(
            f"the TLS certificate of {at} is not trusted: {cause.verify_message}", TRUST
        )
    if not isinstance(error, urllib.error.HTTPError):
        return f"{at}: {cause}", 0.0
    error.close()
    message = error.headers.get("X-Error-Message")  # the Hub sends it, a proxy does not
    reason = f"{error.code} {message or error.reason}"
    if error.code not in (408, 429) and error.code < 500:
        hint = GONE if error.code not in (401, 403) else LICENCE if message else BARRED
        raise DownloadError(f"{at} refuses {name}: {reason}", hint)
    after = error.headers.get("Retry-After") or error.headers.get("RateLimit", "").split("t=")[-1]
    return reason, min(float(after), 300) if after.isdigit() else 0.0
