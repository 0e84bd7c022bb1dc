"""`vllm serve`."""

from __future__ import annotations

import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

from . import behaviour, child, wire, words
from .endpoint import Endpoint
from .story import Story

SHUTDOWN = (
    "[shutdown] API server: shutdown triggered",
    "[shutdown] API server: engine client stopped",
    "[shutdown] API server: shutting down FastAPI HTTP server",
)
MASTER = 29501  # vLLM's default of --master-port
GRACE = 0.5  # seconds from a dead rank to the end of the server; the real one takes up to 6


class Serve:
    """One `vllm serve`: the API server of a group, or a headless part of one."""

    def __init__(self, given: dict[str, str]) -> None:
        self._given = given
        self._wrong = behaviour.of("serve")
        self._seats: dict[int, tuple[str, int]] = {}
        self._changed = threading.Condition()
        self._died: int | None = None
        self._serves = False
        kinds = ("tensor", "pipeline", "data")
        size = [int(given.get(f"{kind}-parallel-size", 1)) for kind in kinds]
        self._size = size[0] * size[1] * size[2]
        self._copies = size[2]
        backend = given.get("distributed-executor-backend", "mp")
        if self._copies > 1 and backend == "uni":
            backend = "copies"
        self._executor = "solo" if self._size == 1 else backend
        self._rank = int(given.get("node-rank", given.get("data-parallel-start-rank", 0)))
        met = given.get("master-addr") or given.get("data-parallel-address")
        address = met or os.environ.get("VLLM_HOST_IP", "127.0.0.1")
        self._facts: dict[str, Any] = {
            "api": os.getpid(),
            "core": 0,
            "address": address,
            "head": os.environ.get("RAY_ADDRESS", ""),
            "model": given[""],
            "name": given.get("served-model-name", given[""]),
            "port": given.get("port", "8000"),
            "master_port": given.get("master-port")
            or given.get("data-parallel-rpc-port", str(MASTER)),
            "size": self._size,
            "rank": self._rank,
        }

    def run(self) -> None:
        """Start, serve, end."""
        deaf = self._wrong.get("ignore_sigterm", False)
        signal.signal(signal.SIGTERM, signal.SIG_IGN if deaf else self._end)
        if "headless" in self._given:
            self._join_head()
            return
        behaviour.happen(self._wrong, behaviour.START)
        try:
            bound = wire.listen(
                int(self._facts["port"]), address=self._given.get("host", ""), backlog=None
            )
        except OSError as error:
            sys.exit(f"OSError: {error}")
        core = self._start_core()
        self._print_story("solo" if self._executor == "copies" else self._executor)
        endpoint = Endpoint(bound, self._facts["name"], self._given, self._wrong)
        endpoint.copies = self._copies
        self._serve(endpoint, core)

    def _join_head(self) -> None:
        title = "VLLM::Worker_TP" if self._copies == 1 else "VLLM::EngineCore_DP"
        worker = child.start(
            f"{title}{self._rank}",
            "worker",
            {"linger": self._wrong.get("linger", False)},
            unlabelled=self._wrong.get("unlabelled", False),
        )
        self._seats[0] = (self._facts["address"], worker.pid)
        story = Story("mp-worker", self._wrong, self._facts, lambda: self._seats)
        story.print_lines(until="Launching vLLM")
        head = self._facts["address"]
        port = int(self._facts["master_port"])
        peer = wire.call(head, port, patience=600.0)
        peer.send(rank=self._rank, pid=worker.pid)
        story.print_lines()
        threading.Thread(target=self._outlive, args=(worker,), daemon=True).start()
        for _ in peer.messages():
            pass
        sys.exit("the head of the group is gone")

    def _outlive(self, worker: subprocess.Popen[bytes]) -> None:
        code = worker.wait()
        print(f"Worker proc VllmWorker-0 died unexpectedly (exit code: {code})", flush=True)
        os._exit(1)

    def _start_core(self) -> subprocess.Popen[bytes]:
        request = {
            "executor": self._executor,
            "size": self._size,
            "head": self._facts["head"],
            "address": self._facts["address"],
            "master_port": int(self._facts["master_port"]),
            "linger": self._wrong.get("linger", False),
        }
        unlabelled = self._wrong.get("unlabelled", False)
        title = "VLLM::EngineCore" + ("_DP0" if self._executor == "copies" else "")
        core = child.start(title, "core", request, unlabelled=unlabelled)
        self._facts["core"] = core.pid
        threading.Thread(target=self._hear, args=(core,), daemon=True).start()
        return core

    def _hear(self, core: subprocess.Popen[bytes]) -> None:
        """Learn from the engine where its ranks are, and which died."""
        for line in core.stdout or ():
            message = json.loads(line)
            with self._changed:
                if "seat" in message:
                    rank, address, pid = message["seat"]
                    self._seats[rank] = (address, pid)
                elif self._died is None:
                    self._died = message["died"]
                self._changed.notify_all()
            if self._died is not None and not self._serves:
                self._fail()

    def _all_seats(self) -> dict[int, tuple[str, int]]:
        """Wait until every rank has its place; a rank that died ends the start."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._seats) >= self._size)
        return self._seats

    def _print_story(self, name: str) -> None:
        Story(name, self._wrong, self._facts, self._all_seats).print_lines()

    def _serve(self, endpoint: Endpoint, core: subprocess.Popen[bytes]) -> None:
        self._serves = True
        threading.Thread(target=endpoint.serve_forever, args=(0.1,), daemon=True).start()
        after = self._wrong.get("dies_after")
        began = time.monotonic()
        unaware = self._executor in ("mp", "copies") or self._wrong.get("unaware", False)
        while core.poll() is None and (self._died is None or unaware):
            if after is not None and time.monotonic() - began > after:
                os._exit(self._wrong.get("exit", 1))
            if self._executor == "copies":
                endpoint.lost = self._died
            else:
                endpoint.broken = self._died is not None
            time.sleep(0.05)
        endpoint.healthy = False
        time.sleep(GRACE)
        self._fail()

    def _fail(self) -> None:
        """End as the real one does when a rank died (recorded: worker host killed)."""
        rank = self._died or 0
        core = f"(EngineCore pid={self._facts['core']}) ERROR 11-27 21:20:59 "
        print(f"{core}[ray_executor_v2.py:1] RayWorkerProc rank=[{rank}] died unexpectedly")
        print(f"{core}[core.py:1] EngineCore encountered a fatal error.", flush=True)
        os._exit(1)

    def _end(self, _signal: int, _frame: object) -> None:
        for line in SHUTDOWN:
            print(f"(APIServer pid={os.getpid()}) INFO 11-27 21:10:29 [launcher.py:254] {line}")
        print("INFO:     Application shutdown complete.", flush=True)
        os._exit(0)


def main() -> None:
    """Run the command line."""
    match sys.argv[1:2]:
        case ["--version"]:
            print(importlib.metadata.version("vllm"))
        case ["serve"]:
            Serve(words.parse(sys.argv[2:])).run()
        case other:
            sys.exit(f"vllm: error: argument subparser: invalid choice: {' '.join(other)!r}")
