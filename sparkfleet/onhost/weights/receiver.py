"""Take files of a model in, hash them as they arrive, publish each one whole or not at all.

Request: ``root`` (the weights folder; ``~`` is this user's home) and ``streams``. A stream carries
the rest of each of its ``files``, one after the other: the ``blob`` to write (below the root), its
``size``, its ``hash``, and the ``offset`` up to which it arrived in an earlier run. Its ``source``
is null for standard input, else a sender's ``address``, ``port``, ``key`` and our ``own`` address.

Answer: ``bytes`` received, ``landed`` blobs, ``wrong`` blobs (with the hash that arrived).
Killed at any point, it leaves ``*.incomplete`` files, with which the next run goes on.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import queue
import select
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

from sparkfleet.onhost.shared.handshake import greet_sender
from sparkfleet.onhost.shared.labels import PARTIAL, STATE_FOLDER
from sparkfleet.onhost.shared.paths import RefusedError, join_contained_path
from sparkfleet.onhost.shared.writing import answer_weights_request, lock_weights_folder

PIECE = 1 << 20  # bytes read at once, and lost by a kill; smaller ones cost too many wake-ups
PIECES = 16  # pieces between the reader and the hasher of a stream
SMALL = 1 << 18  # bytes; more is worth a hand-over to another thread
SETTLE_EVERY = 256 << 20  # bytes of a file between two hand-overs to the disk
WAITING = 64  # files that wait for the disk at once
LEDGER = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
AGAIN = "free space, or check that path; then run again: what has arrived is kept"


class Hasher:
    """Hashes pieces in a thread of its own, so that the next piece is read meanwhile."""

    def __init__(self) -> None:
        self.free: queue.SimpleQueue[memoryview] = queue.SimpleQueue()
        self.work: queue.SimpleQueue[tuple[Any, memoryview, int]] = queue.SimpleQueue()
        for _ in range(PIECES):
            self.free.put(memoryview(bytearray(PIECE)))
        threading.Thread(target=self._hash, daemon=True).start()

    def _hash(self) -> None:
        while True:
            state, piece, count = self.work.get()
            state.update(piece[:count])
            self.free.put(piece)

    def take(self, state: Any, piece: memoryview, count: int) -> None:
        """Hash a piece, a small one here and now."""
        if count <= SMALL and self.free.qsize() == PIECES - 1:
            state.update(piece[:count])
            self.free.put(piece)
        else:
            self.work.put((state, piece, count))

    def wait(self) -> None:
        """Return once every piece was hashed."""
        if self.free.qsize() < PIECES:
            for piece in [self.free.get() for _ in range(PIECES)]:
                self.free.put(piece)


class WeightsStore:
    """The weights folder of this host, locked for one writer."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.received: list[int] = []  # bytes of each piece
        self.landed: list[str] = []
        self.wrong: dict[str, str] = {}
        self._lock = lock_weights_folder(root)
        ledger = root / STATE_FOLDER / "ledger.jsonl"
        self._ledger = os.open(ledger, LEDGER, 0o600)
        self._disk = ThreadPoolExecutor(4)
        self._waiting: deque[Future[None]] = deque()
        self._folders: dict[Path, Path] = {}

    def land(self, item: dict[str, Any], readinto: Callable[..., int], hasher: Hasher) -> None:
        """Write the rest of one file as it arrives, and hash all of it."""
        blob = join_contained_path(self.root, item["blob"])
        offset = item["offset"]
        partial = blob.with_name(blob.name + PARTIAL)
        self._make(partial.parent)
        if not os.access(partial, os.W_OK):  # a container left it; the folder is this user's
            partial.unlink(missing_ok=True)
        file = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        if offset and os.fstat(file).st_size < offset:
            raise RefusedError(f"{partial} was changed by another run", "run again")
        os.ftruncate(file, offset)
        state = create_hash_state(item)
        for piece, count in read_pieces(lambda piece: os.readv(file, [piece]), offset, hasher):
            hasher.take(state, piece, count)
        for piece, count in read_pieces(readinto, item["size"] - offset, hasher):
            if os.write(file, piece[:count]) < count:
                raise OSError(errno.ENOSPC, "the disk is full", str(partial))
            hasher.take(state, piece, count)
            self.received.append(count)
            offset += count
            if offset % SETTLE_EVERY < count:
                self._later(flush_file, os.dup(file), item["size"])
        hasher.wait()
        if item["size"] > SMALL:
            self._later(self._publish, item, partial, file, state.hexdigest())
        else:
            self._publish(item, partial, file, state.hexdigest())

    def _publish(self, item: dict[str, Any], partial: Path, file: int, digest: str) -> None:
        status = os.fstat(file)
        flush_file(file, item["size"])
        if status.st_size != item["size"] or not item["hash"].endswith(f":{digest}"):
            partial.unlink()
            self.wrong[item["blob"]] = digest
            return
        blob = partial.replace(self.root / item["blob"])
        name = str(self._folders[blob.parent] / blob.name)
        row = [name, status.st_size, status.st_mtime_ns, status.st_ino, item["hash"], "brought"]
        os.write(self._ledger, json.dumps(row).encode() + b"\n")
        self.landed.append(item["blob"])

    def _make(self, folder: Path) -> None:
        """Create a folder, and remember where it really is: the ledger names no links."""
        if folder not in self._folders:
            folder.mkdir(parents=True, exist_ok=True)
            self._folders[folder] = folder.resolve().relative_to(self.root.resolve())

    def _later(self, work: Callable[..., None], *args: Any) -> None:
        self._waiting.append(self._disk.submit(work, *args))
        if len(self._waiting) > WAITING:
            self._waiting.popleft().result()

    def wait(self) -> None:
        """Return once everything that arrived is on the disk and published."""
        while self._waiting:
            self._waiting.popleft().result()


def create_hash_state(item: dict[str, Any]) -> Any:
    """Return the hash to update: SHA-256, or the SHA-1 by which Git names a file's content."""
    if item["hash"].startswith("git:"):
        return hashlib.sha1(b"blob %d\0" % item["size"])  # noqa: S324 - Git's own
    return hashlib.sha256()


def read_pieces(
    readinto: Callable[..., int], size: int, hasher: Hasher
) -> Iterator[tuple[memoryview, int]]:
    """Yield `size` bytes in pieces; who takes one owes it to the hasher."""
    while size:
        piece = hasher.free.get()
        count = readinto(piece[: min(PIECE, size)])
        if not count:
            raise RefusedError(f"the stream ended {size} bytes too early", "run again: it resumes")
        yield piece, count
        size -= count


def flush_file(file: int, size: int) -> None:
    """Bring a file to the disk and out of the page cache, which starves the GPU's memory."""
    if size > SMALL:  # what a power cut takes of the small ones is sent again
        os.fdatasync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)


def connect_to_sender(source: dict[str, Any], files: list[dict[str, Any]]) -> Callable[..., int]:
    """Return how to read the rest of `files` from a sender; the key proves each to the other."""
    there = (source["address"], source["port"])
    try:
        wire = socket.create_connection(there, timeout=15, source_address=(source["own"], 0))
    except OSError as error:
        problem = f"cannot reach {there[0]} port {there[1]}: {error.strerror or error}"
        raise RefusedError(
            problem, "is a link down, or a firewall in the way? {task:links.verify}"
        ) from error
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT):
        wire.setsockopt(socket.IPPROTO_TCP, option, 3)  # a dead sender is noticed in 12 s
    requested = json.dumps([[item["blob"], item["offset"]] for item in files]).encode()
    try:
        greet_sender(wire, source["key"], requested)
    except OSError as error:
        problem = f"{there[0]} port {there[1]}: {error.strerror or error}"
        raise RefusedError(problem, "run again: what has arrived is kept") from error
    wire.settimeout(None)
    return lambda piece: wire.recv_into(piece, 0, socket.MSG_WAITALL)


def land_stream(store: WeightsStore, stream: dict[str, Any]) -> None:
    """Land the files of one stream."""
    readinto: Callable[..., int] = cast("io.BufferedReader", sys.stdin.buffer).readinto
    if stream["source"]:
        readinto = connect_to_sender(stream["source"], stream["files"])
    hasher = Hasher()
    for item in stream["files"]:
        store.land(item, readinto, hasher)


def check(root: Path, streams: list[dict[str, Any]]) -> None:
    """Refuse blobs that lead out of `root`, before anything is made."""
    for item in (item for stream in streams for item in stream["files"]):
        join_contained_path(root, item["blob"])


def receive_streams(store: WeightsStore, streams: list[dict[str, Any]]) -> dict[str, Any]:
    """Run all `streams` at once, each in a thread of its own."""
    idle = all(stream["source"] for stream in streams)
    threading.Thread(target=report_received, args=(store, [0] if idle else []), daemon=True).start()
    with ThreadPoolExecutor(len(streams)) as threads:
        for end in [threads.submit(land_stream, store, stream) for stream in streams]:
            end.result()
    store.wait()
    return {"bytes": sum(store.received), "landed": store.landed, "wrong": store.wrong}


def report_received(store: WeightsStore, idle: list[int]) -> None:
    """Say each half second how far it is, and end when an `idle` standard input does."""
    while not select.select(idle, [], [], 0.5)[0] or os.read(0, PIECE):
        line = {"progress": {"bytes": sum(store.received), "landed": len(store.landed)}}
        print(json.dumps(line), flush=True)
    os._exit(1)  # safe at any point


def main() -> dict[str, Any]:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.buffer.readline())
    streams = request["streams"]

    def work(root: Path) -> dict[str, Any]:
        check(root, streams)
        return receive_streams(WeightsStore(root), streams)

    return answer_weights_request(request["root"], work, again=AGAIN)


if __name__ == "__main__":
    print(json.dumps(main()))
