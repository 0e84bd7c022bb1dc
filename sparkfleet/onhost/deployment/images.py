"""Bring an image to this host, or look inside one. Exits when its standard input closes.

Request: ``do``, ``cli`` (docker or podman), and what that request needs:

- pull: ``image``, from its registry
- build: ``name`` of a new image, and the ``file`` that makes it (lines of a Dockerfile)
- send: ``images`` to the host that knows the one-time ``key``, from ``address``, to ``peer`` only;
  with ``platform``, that one of a multi-architecture image
- receive: what the host at ``address`` and ``port`` sends to our ``own`` one, with its ``key``
- probe: run ``program`` by the Python of ``image``, with the ``options`` of its containers; keep
  what it says in the file ``record``

Says ``{"progress": {...}}`` each second: layers, or bytes. `send` first says its port. Nothing
is put into a file on the way: what one engine saves, the other loads at once.
"""

from __future__ import annotations

import json
import os
import re
import select
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any

from sparkfleet.onhost.shared.answers import build_os_error_answer
from sparkfleet.onhost.shared.handshake import (
    HandshakeError,
    KeyedListener,
    greet_sender,
    receive_pieces,
    send_piece,
)

PIECE = 1 << 20  # bytes moved at once
PATIENCE = 60  # seconds for the other side to connect
LOAD_PATIENCE = 300  # seconds that the other engine may take nothing
PROBE_PATIENCE = 300  # seconds; a first container of a large image starts slowly
LAST_LINES = 12  # of an engine's words that an error quotes
LAYER = re.compile(r"([0-9a-f]{12}): (.*)")
HERE = ("Pull complete", "Already exists")
HINTS = (
    (r"unauthori[sz]ed|authentication required|denied: ",
     "on that host: docker login REGISTRY (nvcr.io: user $oauthtoken, password the NGC key)"),
    (r"blobs/\S+: no such file",
     "the image was saved with other platforms in its index: engine_image_source: pull"),
    (r"no space left", "free some space there: docker system df; docker image prune"),
    (r"no such host|i/o timeout|connection refused|network is unreachable",
     "without a registry: load it on one host, then engine_image_source: copy"),
    (r"short-name", "include the registry: docker.io/vllm/vllm-openai:TAG"),
    (r"manifest unknown|not found", "check the name and the registry's list of tags"),
    (r"could not select device driver|unresolvable CDI",
     "containers get no GPU there: {task:hosts.prepare} shows the set-up; or set engine_gpus"),
)  # fmt: skip


class EngineError(Exception):
    """The error output of the container engine."""


class EngineCommand:
    """One command of the engine, and how far it is."""

    def __init__(self, argv: list[str], stdin: int | None = None) -> None:
        self.progress: dict[str, int] = {}
        self.child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.output_lines: list[str] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        threading.Thread(target=self._report_progress, daemon=True).start()

    def _listen(self) -> None:
        for line in require_pipe(self.child.stderr):
            self.output_lines.append(line.decode(errors="replace").rstrip())

    def _report_progress(self) -> None:
        """Report the progress each second; exit when standard input ends."""
        while not select.select([0], [], [], 1)[0] or os.read(0, PIECE):
            print(json.dumps({"progress": self.progress}), flush=True)
        self.child.kill()
        os._exit(1)

    def end(self) -> None:
        """Wait for its end; raise EngineError if it failed."""
        status = self.child.wait()
        self._listener.join()
        if status:
            raise EngineError("\n".join(self.output_lines[-LAST_LINES:]) or f"status {status}")


def require_pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    """Return a pipe that was asked for."""
    assert pipe is not None  # noqa: S101 - Popen was asked for it
    return pipe


def main() -> None:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.buffer.readline())
    handlers = {
        "pull": pull_from_registry,
        "build": build_from_text,
        "send": save_to_peer,
        "receive": load_from_peer,
        "probe": run_probe_program,
    }
    try:
        answer = handlers[request["do"]](request)
    except EngineError as error:
        text = str(error)
        hint = next((hint for mark, hint in HINTS if re.search(mark, text, re.IGNORECASE)), None)
        answer = {"error": f"{request['cli']} cannot {request['do']}: {text}", "hint": hint}
    except OSError as error:
        answer = build_os_error_answer(error, request["do"])
    print(json.dumps(answer))


def pull_from_registry(request: dict[str, Any]) -> dict[str, Any]:
    """Pull an image, counting its layers."""
    work = EngineCommand([request["cli"], "pull", request["image"]])
    layers: dict[str, bool] = {}
    for line in require_pipe(work.child.stdout):
        match = LAYER.match(line.decode(errors="replace"))
        if match:
            layers[match.group(1)] = match.group(2).startswith(HERE)
            work.progress = {"layers": len(layers), "done": sum(layers.values())}
    work.end()
    return {}


def build_from_text(request: dict[str, Any]) -> dict[str, Any]:
    """Make an image from one that is here; what its commands say is shown if they fail."""
    argv = [request["cli"], "build", "--network=host", "--tag", request["name"], "-"]
    work = EngineCommand(argv, subprocess.PIPE)
    with require_pipe(work.child.stdin) as stdin:
        stdin.write(request["file"].encode())
    for line in require_pipe(work.child.stdout):
        work.output_lines.append(line.decode(errors="replace").rstrip())
    work.end()
    return {}


def save_to_peer(request: dict[str, Any]) -> dict[str, Any]:
    """Send images as the engine saves them, to the first who proves to know the key."""
    listener = KeyedListener(request["address"], request["peer"], [request["key"]])
    print(json.dumps({"progress": {"port": listener.port}}), flush=True)
    peer = listener.accept(PATIENCE)
    listener.close()
    if peer is None:
        return {"error": f"the host at {request['peer']} did not connect within {PATIENCE} s"}
    peer.wire.settimeout(LOAD_PATIENCE)
    platform = [f"--platform={request['platform']}"] if request["platform"] else []
    several = ["--multi-image-archive"] if request["cli"] == "podman" else []
    with peer.wire as wire:
        work = EngineCommand([request["cli"], "save", *several, *platform, *request["images"]])
        number = count = 0
        output = require_pipe(work.child.stdout).fileno()
        while piece := os.read(output, PIECE):
            send_piece(wire, peer.session_key, number, piece)
            number += 1
            count += len(piece)
            work.progress = {"bytes": count}
        work.end()
        send_piece(wire, peer.session_key, number, b"")
    return {"bytes": count}


def load_from_peer(request: dict[str, Any]) -> dict[str, Any]:
    """Load images as they arrive; nothing of a sender that does not hold the key is loaded."""
    at = (request["address"], request["port"])
    with socket.create_connection(at, PATIENCE, (request["own"], 0)) as wire:
        session_key = greet_sender(wire, request["key"])
        work = EngineCommand([request["cli"], "load", "--quiet"], subprocess.PIPE)
        count = 0
        try:
            with require_pipe(work.child.stdin) as stdin:
                for piece in receive_pieces(wire, session_key):
                    stdin.write(piece)
                    count += len(piece)
                    work.progress = {"bytes": count}
        except BrokenPipeError:
            work.end()
            raise
        except HandshakeError:
            work.child.kill()
            raise
    work.end()
    return {"bytes": count}


def run_probe_program(request: dict[str, Any]) -> dict[str, Any]:
    """Run a program inside an image and keep its answer."""
    argv = [request["cli"], "run", "--rm", "--pull=never", "--network=none", *request["options"]]
    argv += ["--entrypoint=python3", request["image"], "-c", request["program"]]
    work = EngineCommand(argv)
    timer = threading.Timer(PROBE_PATIENCE, work.child.kill)
    timer.start()
    output = require_pipe(work.child.stdout).read().decode(errors="replace").strip()
    timer.cancel()
    work.end()
    answer = json.loads(output.splitlines()[-1])
    path = Path(request["record"]).expanduser()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(answer))
    new.replace(path)
    return {"probe": answer}


if __name__ == "__main__":
    main()
