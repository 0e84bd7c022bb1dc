"""Docker on the lab's hosts, and an image whose vLLM and Ray are the lab's engine.

The image is a few empty folders and links: its environment names folders of this machine, which
the lab's container runtime binds into every container of it. So the engine exists once, and an
image "holds" it in 20 kB.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from sparkfleet.command_name import name_command
from sparkfleet.errors import UsageError
from sparkfleet.lab import state as states
from sparkfleet.lab.engine import requirements
from sparkfleet.lab.engine.kinds import CPU
from sparkfleet.lab.faults.steps import resolve_host_path, run_in_host
from sparkfleet.lab.host import build
from sparkfleet.lab.paths import CACHE, DOCKER_ENABLED, DOCKER_INVENTORY, INSIDE, INVENTORY
from sparkfleet.lab.plan import FleetPlan
from sparkfleet.lab.state import InitProcess

PACKAGES = {"dockerd": "docker.io", "docker": "docker.io"}
LAYER = INSIDE / "image.tar"
PATIENCE = 30.0  # seconds for a daemon to answer
BINDS = ("/usr", "/etc/alternatives", "/etc/ld.so.cache")
FOLDERS = ("dev", "etc", "proc", "root", "run", "sbin", "sys", "tmp", "usr", "var")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NONE: Mapping[str, str] = MappingProxyType({})
ACCOUNTS = {"etc/passwd": "root:x:0:0:root:/root:/bin/bash\n", "etc/group": "root:x:0:\n"}


def start_docker() -> str:
    """Start Docker on every host that runs without it, give each the image, and return its name.

    Writes the inventory whose engine it is. Raises UsageError.
    """
    requirements.check_root()
    requirements.check_tools(PACKAGES)
    with states.hold_lab_lock():
        state = states.load_lab_state()
        if state is None:
            raise UsageError("no lab runs on this machine", hint=f"sudo {name_command('lab.up')}")
        check_containers(state.plan)
        alive = [process for process in state.running.values() if process.alive]
        for process in alive:
            _start_daemon(process)
        for process in alive:
            _await_daemon(process)
            if not _has_image(process):
                import_image(
                    process,
                    name_engine_image(),
                    build_image_layer(),
                    instructions=list_image_instructions(),
                )
        _write_inventory()
    return name_engine_image()


def check_containers(plan: FleetPlan) -> None:
    """Raise UsageError for hosts with real GPUs: the image has the engine for the CPU."""
    if plan.gpus:
        raise UsageError(
            "containers on hosts with real GPUs are not supported: the lab's container runtime"
            " passes no GPU to them",
            hint=f"use the inventory of {name_command('lab.up')} --gpus; its engine is native",
        )


def name_engine_image() -> str:
    """Return the name of the image of this engine."""
    return f"sparkfleet-lab/vllm:{CPU.venv_path().name.removeprefix('engine-')}"


def build_image_layer(programs: Mapping[str, str] = NONE) -> bytes:
    """Return the image's only layer as a tar archive, always the same bytes.

    `programs` are more files of it, by path; a test puts stand-ins there.
    """
    links = [name for name in ("bin", "lib", "lib64") if Path("/", name).is_symlink()]
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name in FOLDERS:
            archive.addfile(
                _build_tar_entry(name, tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755)
            )
        for name in links:
            archive.addfile(_build_tar_entry(name, tarfile.SYMTYPE, 0o777, target=f"usr/{name}"))
        for name, text in {**ACCOUNTS, **programs}.items():
            entry = _build_tar_entry(name, tarfile.REGTYPE, 0o755 if name in programs else 0o644)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return content.getvalue()


def list_image_instructions(path: str = "") -> list[str]:
    """Return what else the image says, as lines of a Dockerfile; `path` comes first in its PATH."""
    binds = dict.fromkeys((*BINDS, str(CACHE), str(Path(sys.base_prefix).resolve())))
    return [
        f"ENV PATH={path and f'{path}:'}{CPU.venv_path()}/bin:{SYSTEM_PATH}",
        f"ENV SPARKFLEET_LAB_BINDS={':'.join(binds)}",
        "WORKDIR /root",
    ]


def import_image(host: InitProcess, name: str, layer: bytes, *, instructions: list[str]) -> None:
    """Make an image of one layer on a host."""
    options = [word for instruction in instructions for word in ("--change", instruction)]
    resolve_host_path(host, LAYER).write_bytes(layer)
    run_in_host(host, ["docker", "import", *options, str(LAYER), name])


def _start_daemon(host: InitProcess) -> None:
    """Start the daemon, and let later boots of the host do so."""
    if _is_daemon_up(host):
        return
    resolve_host_path(host, DOCKER_ENABLED).touch()
    run_in_host(host, ["sh", "-c", "lab-docker </dev/null >/dev/null 2>&1 &"])


def _is_daemon_up(host: InitProcess) -> bool:
    return run_in_host(host, ["docker", "info"], check=False).returncode == 0


def _has_image(host: InitProcess) -> bool:
    return not run_in_host(
        host, ["docker", "image", "inspect", name_engine_image()], check=False
    ).returncode


def _await_daemon(host: InitProcess) -> None:
    deadline = time.monotonic() + PATIENCE
    while not _is_daemon_up(host):
        if time.monotonic() > deadline:
            log = run_in_host(host, ["tail", "-n5", "/run/dockerd.log"], check=False).stdout
            raise UsageError(
                f"Docker does not start in the lab:\n{log}", hint=f"see: {name_command('docs')} lab"
            )
        time.sleep(0.05)


def _write_inventory() -> None:
    text = re.sub(r"engine: native.*", "engine: docker", INVENTORY.read_text())
    image_lines = f"engine_image: {name_engine_image()}\n    engine_image_source: none"
    DOCKER_INVENTORY.write_text(re.sub(r"engine_venv: .*", image_lines, text))
    os.chown(DOCKER_INVENTORY, *build.find_caller_ids())


def _build_tar_entry(name: str, kind: bytes, mode: int, *, target: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type = kind
    entry.mode = mode
    entry.linkname = target
    return entry
