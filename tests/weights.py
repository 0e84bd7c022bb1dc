"""Small models, and hosts that are folders of this machine with the real on-host programs."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.commands import Command
from sparkfleet.model import Host, Verdict
from sparkfleet.remote.channel import Channel
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.local import LocalConnection
from sparkfleet.weights.inspection import Inspection, inspect_weights
from sparkfleet.weights.manifest import Manifest, build_folder_manifest
from sparkfleet.weights.transfer import delivery, stage
from sparkfleet.weights.transfer.delivery import DeliveryReport
from sparkfleet.weights.transfer.routes import Ends
from sparkfleet.weights.transfer.sources import FolderSource, WeightsSource
from sparkfleet.weights.transfer.stage import StagePlan

SHARDS = 3
LOOPBACK = Ends(sender="127.0.0.1", receiver="127.0.0.1")
COMMIT = "9f1c3a77e6a04f2b8d5e0c1b2a3948576fedcba0"


def isolate(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a test out of the user's caches, and run on-host programs by a Python that is near."""
    (folder / "home").mkdir(exist_ok=True)
    monkeypatch.setenv("HOME", str(folder / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")


def shard(size: int, seed: int = 0) -> bytes:
    """Return a safetensors file with one tensor of `size` bytes."""
    tensor = {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}
    header = json.dumps({"weight": tensor}).encode()
    return len(header).to_bytes(8, "little") + header + random.Random(seed).randbytes(size)


def files(size: int = 200_000) -> dict[str, bytes]:
    """Return the files of a model: shards of `size` bytes, their index, and small ones."""
    names = [f"model-{n + 1:05}-of-{SHARDS:05}.safetensors" for n in range(SHARDS)]
    index = {"weight_map": {f"layer.{n}": name for n, name in enumerate(names)}}
    shards = {name: shard(size, seed) for seed, name in enumerate(names)}
    return {
        **shards,
        "model.safetensors.index.json": json.dumps(index).encode(),
        "config.json": b'{"architectures": ["LlamaForCausalLM"]}',
        "tokenizer.json": b"{}",
        "assistant/config.json": b'{"draft": true}',
    }


def write(folder: Path, content: Mapping[str, bytes]) -> Path:
    """Write files below `folder`."""
    for name, body in content.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    return folder


@dataclass(slots=True)
class Sparks:
    """Hosts of this machine; each has a weights folder of its own."""

    folder: Path
    names: Sequence[str]
    links: dict[str, Connection] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.links = {name: LocalConnection(Host(name=name)) for name in self.names}

    def root(self, name: str) -> Path:
        """Return the weights folder of a host."""
        return self.folder / name

    def inspect(self, manifest: Manifest, **options: Any) -> dict[str, Inspection]:
        """Ask every host what it holds."""
        return {
            name: inspect_weights(link, manifest, str(self.root(name)), **options)
            for name, link in self.links.items()
        }

    def plan(self, manifest: Manifest) -> Mapping[str, StagePlan]:
        """Return what every host lacks."""
        return stage.plan_staging(manifest, self.inspect(manifest))

    def stage(
        self, manifest: Manifest, source: WeightsSource | Path | None = None
    ) -> DeliveryReport:
        """Bring every host what it lacks."""
        if isinstance(source, Path):
            source = FolderSource(folder=source)
        return delivery.deliver_model(
            self.links, self.plan(manifest), lambda _one, _two: LOOPBACK, source=source
        )

    def verify(self, manifest: Manifest, *, full: bool = False) -> dict[str, tuple[Verdict, ...]]:
        """Return the verdicts on every host."""
        return {
            name: stage.verify_weights(link, manifest, str(self.root(name)), full=full)
            for name, link in self.links.items()
        }

    def complete(self, manifest: Manifest) -> bool:
        """Say whether every host is proven to hold all of `manifest`, by a fresh hash."""
        last = [found[-1].check for found in self.verify(manifest, full=True).values()]
        return last == ["weights.complete"] * len(self.names)


class UserLink(LocalConnection):
    """A host with an account of its own: another home, another PATH; it keeps what it was sent."""

    def __init__(self, name: str, **env: str) -> None:
        super().__init__(Host(name=name))
        self.env = env
        self.sent = bytearray()

    def _start(self, command: Command) -> Channel:
        self.sent += command.line().encode()
        channel = super()._start(replace(command, env={**command.env, **self.env}))
        send = channel.send

        def keep(data: bytes) -> None:
            self.sent.extend(data)
            send(data)

        channel.send = keep  # type: ignore[method-assign]  # to see what is sent
        return channel


def one(folder: Path) -> Sparks:
    """Return a single host."""
    return Sparks(folder, ["spark-01"])


def checks(verdicts: Sequence[Verdict]) -> list[str]:
    """Return the ids of the verdicts that refuse."""
    return [verdict.check for verdict in verdicts if verdict.refuses]


def bundle(folder: Path, size: int = 200_000) -> tuple[Path, Manifest]:
    """Write a model as a local folder and return it with its manifest."""
    source = write(folder / "gemma4-coder", files(size))
    return source, build_folder_manifest(source)


def self_signed(folder: Path) -> Path:
    """Write a certificate for 127.0.0.1 that is self-signed, with its key."""
    path = folder / "certificate.pem"
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    name = ("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
    words = ("openssl", "req", "-x509", *kind, *name, "-keyout", "-", "-out", "-")
    made = subprocess.run(words, capture_output=True, text=True, check=True)
    path.write_text(made.stdout)
    return path


def resident(path: Path) -> int:
    """Return how many pages of a file are in memory; mapping it loads none."""
    size = path.stat().st_size
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    length, vector = ctypes.c_size_t(size), (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    with path.open("rb") as file:
        start = ctypes.c_void_p(
            libc.mmap(
                None, length, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), ctypes.c_long(0)
            )
        )
    assert libc.mincore(start, length, vector) == 0
    libc.munmap(start, length)
    return sum(page & 1 for page in vector)


def on_a_disk(folder: Path) -> bool:
    """Say whether files in `folder` can leave memory."""
    words = ["stat", "-f", "-c", "%T", str(folder)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout != "tmpfs\n"
