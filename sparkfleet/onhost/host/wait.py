"""Wait on this host until a TCP port or a URL answers as wanted.

Request: ``{"timeout": s, "delay": s}`` with either ``tcp: {"host", "port", "open": bool}`` or
``http: {"url", "status": [numbers], "contains": text}``. Answers ``{"waited": s}``, with ``status``
for a URL. Ends by itself when standard input ends, which is how a run that was cut shows.
"""

from __future__ import annotations

import http.client
import json
import select
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import Any

TICK = 0.5  # seconds between attempts
CONNECT = 5.0  # seconds that one attempt may take
MAX_READ = 1024 * 1024  # bytes of an answer that are searched


def main() -> None:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.readline())
    began = time.monotonic()
    sleep_or_exit(request["delay"])
    while True:
        done, state = probe_target(request)
        waited = time.monotonic() - began
        if done:
            print(json.dumps({"waited": round(waited, 1), "seen": state}))
            return
        if waited >= request["timeout"]:
            print(json.dumps({"error": f"not after {waited:.0f} s; last seen: {state}"}))
            return
        sleep_or_exit(TICK)


def sleep_or_exit(seconds: float) -> None:
    """Sleep; exit when the run that asked has ended."""
    if select.select([sys.stdin], [], [], seconds)[0] and not sys.stdin.read(1):
        sys.exit("the run that waited has ended")


def probe_target(request: dict[str, Any]) -> tuple[bool, str]:
    """Return whether it is as wanted now, and what was seen."""
    if "tcp" in request:
        return probe_tcp(**request["tcp"])
    return probe_http(**request["http"])


def probe_tcp(host: str, port: int, open: bool) -> tuple[bool, str]:  # noqa: A002, FBT001 - the request's
    """Try to connect; `open` is whether that should succeed."""
    try:
        socket.create_connection((host, port), timeout=CONNECT).close()
    except OSError as error:
        return not open, f"{host}:{port}: {error.strerror or error}"
    return open, f"{host}:{port} accepts connections"


def probe_http(url: str, status: list[int], contains: str) -> tuple[bool, str]:
    """Ask `url`, and compare the status and the text.

    A server may send a byte now and then, which no time limit of a socket notices.
    """
    seen: list[tuple[bool, str]] = []
    work = threading.Thread(
        target=lambda: seen.append(judge_answer(url, status, contains)), daemon=True
    )
    work.start()
    work.join(CONNECT)
    return seen[0] if seen else (False, f"{url}: no complete answer within {CONNECT:.0f} s")


def judge_answer(url: str, status: list[int], contains: str) -> tuple[bool, str]:
    """Return whether the answer at `url` is as wanted, and what was seen."""
    try:
        code, body = read_answer(url)
    except (OSError, ValueError, OverflowError, http.client.HTTPException) as error:
        return False, f"{url}: {getattr(error, 'reason', None) or error}"
    if code not in status:
        return False, f"status {code}"
    if contains.encode() not in body:
        return False, f"status {code} without {contains!r}"
    return True, f"status {code}"


def read_answer(url: str) -> tuple[int, bytes]:
    """Return the status and the beginning of the text at `url`, error pages too."""
    try:
        reply = urllib.request.urlopen(url, timeout=CONNECT)
    except urllib.error.HTTPError as error:
        reply = error
    body = b""
    with reply:
        while len(body) < MAX_READ and (piece := reply.read1(MAX_READ)):
            body += piece
    return reply.status, body[:MAX_READ]


if __name__ == "__main__":
    main()
