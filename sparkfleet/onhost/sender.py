"""Offer files of a model to the hosts that hold a one-time key, for as long as the copy lasts.

Request: ``root`` (the weights folder; ``~`` is this user's home), ``address`` to listen on,
``peer`` (who alone may connect), ``keys`` (one for each connection), ``files`` by the ``blob`` that
is asked for: its ``size``, its ``path`` here, and whether it is ``arriving`` only now. With ``hub``
they come from that ``url`` instead, by their ``name``, with ``token``.

First says ``{"progress": {"port": ...}}``. A peer gets 32 random bytes, and sends the HMAC-SHA256
by its key of them and the list of ``[blob, offset]`` that follows. It gets the rest of these files
in turn; their hashes came to it another way. Answer: ``bytes`` sent.
"""

from __future__ import annotations

import contextlib
import hmac
import http.client
import json
import os
import select
import socket
import ssl
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote, urlsplit

PIECE = 1 << 20  # bytes read at once from the hub; more of a file is dropped from the page cache
PATIENCE = 60  # s for a receiver to connect
GREETING = 16 << 20  # bytes of the longest line that a peer may send
POLL = 0.01  # s between two looks at a file that still arrives, or at the keys that are left
TRIES = 8  # in a row without a byte
PARTIAL = ".incomplete"
LED = threading.local()  # `url`: where a thread's request was led
LICENCE = "accept the licence, and give a token that may read it (a mirror's redirect drops it)"
BARRED = "large files come from there: let the proxy or the firewall of this host pass it"
TRUST = "is the clock of this host right? does a proxy open TLS? then: update-ca-certificates"
GONE = "it is not there at that commit, or not whole: see weights_revision, HF_ENDPOINT"


class HubError(Exception):
    """The hub will not give a file; `args` are what is wrong, and what to do about it."""


class Files:
    """Files of this host, whole or still arriving."""

    def __init__(self, root: Path, files: dict[str, dict[str, Any]]) -> None:
        self.root, self.files = root, files
        self.stale = {b: _identity(root / b) for b, file in files.items() if file["arriving"]}

    def send(self, wire: socket.socket, blob: str, offset: int) -> int:
        """Send file `blob` from byte `offset` on, each byte as soon as it is there."""
        size, start = self.files[blob]["size"], offset
        with self._open(blob) as file:
            while offset < size:
                found = os.fstat(file.fileno())
                if found.st_size > offset:
                    count = min(found.st_size, size) - offset
                    offset += os.sendfile(wire.fileno(), file.fileno(), offset, count)
                elif found.st_nlink == 0:
                    raise ConnectionError(f"{blob} arrived here with a wrong hash")
                else:
                    time.sleep(POLL)
        return offset - start

    def forget(self, blob: str) -> None:
        """Drop a large file from the page cache, which starves the GPU's memory."""
        if self.files[blob]["size"] > PIECE:
            with contextlib.suppress(OSError), self._open(blob) as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def _open(self, blob: str) -> BinaryIO:
        """Open `blob` where its bytes are, or arrive; what it was before does not count."""
        if not self.files[blob]["arriving"]:
            return Path(self.root, self.files[blob]["path"]).open("rb")
        landing = self.root / blob
        while True:
            with contextlib.suppress(FileNotFoundError):
                return landing.with_name(landing.name + PARTIAL).open("rb")
            if _identity(landing) not in (None, self.stale[blob]):
                return landing.open("rb")
            time.sleep(POLL)


def _identity(path: Path) -> tuple[int, int] | None:
    found = path.stat() if path.exists() else None
    return (found.st_ino, found.st_mtime_ns) if found else None


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects; the token goes only to the host for which it was given."""

    def redirect_request(self, req: Any, *args: Any) -> Any:
        """Return the next request."""
        following: Any = super().redirect_request(req, *args)
        LED.url, token = following.full_url, req.unredirected_hdrs.get("Authorization")
        if token and urlsplit(LED.url)[:2] == urlsplit(req.full_url)[:2]:  # not `req.host`
            following.add_unredirected_header("Authorization", token)
        return following

    http_error_308 = urllib.request.HTTPRedirectHandler.http_error_302  # Python < 3.11


class Hub:
    """Files of the Hub, at one commit."""

    def __init__(self, hub: dict[str, str], files: dict[str, dict[str, Any]]) -> None:
        self.hub, self.files = hub, files
        self.opener = urllib.request.build_opener(Redirects)

    def send(self, wire: socket.socket, blob: str, offset: int) -> int:
        """Send file `blob` from byte `offset` on."""
        size: int = self.files[blob]["size"]
        for piece in self._pieces(self.files[blob]["name"], offset, size):
            wire.sendall(piece)
        return size - offset

    def forget(self, blob: str) -> None:
        """Nothing of the hub is in our page cache."""

    def _pieces(self, name: str, offset: int, size: int) -> Iterator[bytes]:
        """Yield the rest of a file; where the hub breaks off, ask it for what is still lacking."""
        failures = 0
        while offset < size:
            reason, wait = "it cut the connection", 0.0
            try:
                with self._get(name, offset) as reply:
                    while piece := reply.read1(min(PIECE, size - offset)):
                        offset += len(piece)
                        failures = 0
                        yield piece
            except (OSError, http.client.HTTPException) as error:
                reason, wait = judge(error, name)
            failures += 1
            if failures > TRIES:
                hint = "try again later; does this host reach it? else: weights_source"
                raise HubError(f"the hub does not send {name}: {reason}", hint)
            time.sleep(wait or min(0.1 * 2**failures, 30))

    def _get(self, name: str, offset: int) -> Any:
        LED.url = url = self.hub["url"] + quote(name)
        request = urllib.request.Request(url, headers={"Range": f"bytes={offset}-"})
        if self.hub["token"]:
            request.add_unredirected_header("Authorization", f"Bearer {self.hub['token']}")
        reply = self.opener.open(request, timeout=30)
        if offset and reply.status != http.client.PARTIAL_CONTENT:  # a mirror without ranges
            for count in [PIECE] * (offset // PIECE) + [offset % PIECE]:
                reply.read(count)
        return reply


def judge(error: Exception, name: str) -> tuple[str, float]:
    """Say what went wrong and for how many seconds to wait; raise HubError if that cannot help."""
    at, cause = urlsplit(LED.url).netloc, getattr(error, "reason", error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        raise HubError(f"{at} has no certificate that counts here: {cause.verify_message}", TRUST)
    if not isinstance(error, urllib.error.HTTPError):
        return f"{at}: {cause}", 0.0
    said = error.headers.get("X-Error-Message")  # the Hub does, what stands before it does not
    reason = f"{error.code} {said or error.reason}"
    if error.code not in (408, 429) and error.code < 500:
        hint = GONE if error.code not in (401, 403) else LICENCE if said else BARRED
        raise HubError(f"{at} refuses {name}: {reason}", hint)
    after = error.headers.get("Retry-After") or error.headers.get("RateLimit", "").split("t=")[-1]
    return reason, min(float(after), 300) if after.isdigit() else 0.0


class Service:
    """Listens until every key was used once, or nobody came in time."""

    def __init__(self, source: Files | Hub, request: dict[str, Any]) -> None:
        self.source, self.peer, self.keys = source, request["peer"], set(request["keys"])
        self.sent: list[int] = []  # bytes of each file
        self.listener = socket.create_server((request["address"], 0), backlog=len(self.keys))
        self.listener.settimeout(POLL)

    def run(self) -> None:
        """Serve every connection in a thread of its own; return once all have ended."""
        deadline = time.monotonic() + PATIENCE
        with ThreadPoolExecutor(2 * len(self.keys)) as threads, self.listener:
            ends = []
            while self.keys and time.monotonic() < deadline:
                with contextlib.suppress(socket.timeout):
                    wire, (address, _) = self.listener.accept()
                    wire.settimeout(PATIENCE)
                    if address == self.peer:
                        ends.append(threads.submit(self._serve, wire))
                    else:
                        wire.close()
            self.listener.close()
            for end in ends:
                end.result()

    def _serve(self, wire: socket.socket) -> None:
        with wire, contextlib.suppress(ConnectionError, socket.timeout):
            wanted = self._greet(wire)
            for blob, offset in wanted:
                self.sent.append(self.source.send(wire, blob, offset))
            wire.shutdown(socket.SHUT_WR)
            wire.recv(1)  # until the other side has it all, its bytes cannot leave our memory
            for blob, _ in wanted:
                self.source.forget(blob)

    def _greet(self, wire: socket.socket) -> list[list[Any]]:
        """Return what the other side wants, if it proves that it holds a key; else nothing."""
        nonce = os.urandom(32)
        wire.sendall(nonce)
        line = wire.makefile("rb").readline(GREETING).rstrip(b"\n")
        proof, wanted = line[:64], line[64:]
        for key in tuple(self.keys):
            mine = hmac.new(key.encode(), nonce + wanted, "sha256").hexdigest()
            if hmac.compare_digest(mine.encode(), proof):
                self.keys.discard(key)
                wire.settimeout(None)
                return list(json.loads(wanted))
        return []

    def tell(self) -> None:
        """Say each second how far it is, and end when whoever started it has gone."""
        while not select.select([0], [], [], 1)[0] or os.read(0, PIECE):
            print(json.dumps({"progress": {"bytes": sum(self.sent)}}), flush=True)
        os._exit(1)


def main() -> dict[str, Any]:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.buffer.readline())
    root, files = Path(request["root"]).expanduser(), request["files"]
    source = Hub(request["hub"], files) if request["hub"] else Files(root, files)
    try:
        service = Service(source, request)
        print(json.dumps({"progress": {"port": service.listener.getsockname()[1]}}), flush=True)
        threading.Thread(target=service.tell, daemon=True).start()
        service.run()
    except HubError as refusal:
        return {"error": refusal.args[0], "hint": refusal.args[1]}
    except OSError as error:
        return {"error": f"{error.filename or request['address']}: {error.strerror}"}
    return {"bytes": sum(service.sent)}


if __name__ == "__main__":
    print(json.dumps(main()))
