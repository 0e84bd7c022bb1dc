"""Offer files of a model to the hosts that hold a one-time key, for as long as the copy lasts.

Request: ``root`` (the weights folder; ``~`` is this user's home), ``address`` to listen on,
``peer`` (who alone may connect), ``keys`` (one for each connection), ``files`` by the ``blob`` that
is asked for: its ``size``, its ``path`` here, and whether it is ``arriving`` only now. With ``hub``
they come from that ``url`` instead, by their ``name``, with ``token``.

First says ``{"progress": {"port": ...}}``. A peer requests a list of ``[blob, offset]`` (see
`shared/handshake.py`) and gets the rest of these files in turn; their hashes came to it another
way. Answer: ``bytes`` sent.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

from sparkfleet.onhost.shared.answers import build_os_error_answer
from sparkfleet.onhost.shared.handshake import KeyedListener, Peer
from sparkfleet.onhost.shared.labels import PARTIAL
from sparkfleet.onhost.shared.paths import (
    RefusedError,
    expand_folder,
    join_contained_path,
    resolve_source_file,
)
from sparkfleet.onhost.shared.weights.downloads import DownloadError, HubFiles, prefer_ipv4

PIECE = 1 << 20  # bytes read at once from the hub; more of a file is dropped from the page cache
PATIENCE = 60  # seconds for a receiver to connect
POLL = 0.01  # seconds between two looks at a file that still arrives


class LocalFiles:
    """Files of this host, whole or still arriving."""

    def __init__(self, root: Path, files: dict[str, dict[str, Any]]) -> None:
        self.files = files
        self.landing = {blob: join_contained_path(root, blob) for blob in files}
        self.there = {blob: resolve_source_file(root, file["path"]) for blob, file in files.items()}
        arriving = (blob for blob, file in files.items() if file["arriving"])
        self.stale = {blob: _file_identity(self.landing[blob]) for blob in arriving}

    def send(self, wire: socket.socket, blob: str, offset: int) -> int:
        """Send file `blob` from byte `offset` on, each byte as soon as it is there."""
        size = self.files[blob]["size"]
        start = offset
        with self._open(blob) as file:
            while offset < size:
                status = os.fstat(file.fileno())
                if status.st_size > offset:
                    count = min(status.st_size, size) - offset
                    offset += os.sendfile(wire.fileno(), file.fileno(), offset, count)
                elif status.st_nlink == 0:
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
            return self.there[blob].open("rb")
        landing = self.landing[blob]
        while True:
            with contextlib.suppress(FileNotFoundError):
                return landing.with_name(landing.name + PARTIAL).open("rb")
            if _file_identity(landing) not in (None, self.stale[blob]):
                return landing.open("rb")
            time.sleep(POLL)


def _file_identity(path: Path) -> tuple[int, int] | None:
    status = path.stat() if path.exists() else None
    return (status.st_ino, status.st_mtime_ns) if status else None


class Service:
    """Listens until every key was used once, or no receiver connected in time."""

    def __init__(self, source: LocalFiles | HubFiles, request: dict[str, Any]) -> None:
        self.source = source
        self.left = len(request["keys"])  # connections that have not come yet
        self.sent: list[int] = []  # bytes of each file
        self.listener = KeyedListener(request["address"], request["peer"], request["keys"])

    def run(self) -> None:
        """Serve every connection in a thread of its own; return once all have ended."""
        deadline = time.monotonic() + PATIENCE
        with ThreadPoolExecutor(self.left) as threads, contextlib.closing(self.listener):
            ends = []
            while self.left and (wait := deadline - time.monotonic()) > 0:
                peer = self.listener.accept(wait)
                if peer is not None:
                    self.left -= 1
                    ends.append(threads.submit(self._serve, peer))
            self.listener.close()
            for end in ends:
                end.result()

    def _serve(self, peer: Peer) -> None:
        wire = peer.wire
        with wire, contextlib.suppress(ConnectionError):
            requested: list[list[Any]] = json.loads(peer.request)
            for blob, offset in requested:
                self.sent.append(self.source.send(wire, blob, offset))
            wire.shutdown(socket.SHUT_WR)
            wire.recv(1)  # until the other side has it all, its bytes cannot leave our memory
            for blob, _ in requested:
                self.source.forget(blob)

    def report_sent(self) -> None:
        """Report the progress each second; exit when standard input ends."""
        while not select.select([0], [], [], 1)[0] or os.read(0, PIECE):
            print(json.dumps({"progress": {"bytes": sum(self.sent)}}), flush=True)
        os._exit(1)


def main() -> dict[str, Any]:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.buffer.readline())
    files = request["files"]
    prefer_ipv4()
    try:
        root = expand_folder(request["root"])
        source = HubFiles(request["hub"], files) if request["hub"] else LocalFiles(root, files)
        service = Service(source, request)
        print(json.dumps({"progress": {"port": service.listener.port}}), flush=True)
        threading.Thread(target=service.report_sent, daemon=True).start()
        service.run()
    except (DownloadError, RefusedError) as refusal:
        return {"error": refusal.args[0], "hint": refusal.args[1]}
    except OSError as error:
        return build_os_error_answer(error, request["address"])
    return {"bytes": sum(service.sent)}


if __name__ == "__main__":
    print(json.dumps(main()))
