"""Look at the containers of one cluster's deployment on this host, or end them.

Request: ``do`` (survey, images, settle, stop), ``cli`` (docker or podman), ``cluster_dir``, but for
images ``cluster``; to look also ``image`` (null where none is named) and ``pip``, for a survey
``files``, ``ports`` and ``cache`` (the folder of compiled kernels), to settle the ``role`` that
was started and how long it must ``stay``, to stop ``grace``.

Containers of a cluster are found by their label. The process of a role's script, which becomes the
client of `docker run`, is in the record of the last start; `processes.py` stops it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sparkfleet.onhost.shared.answers import build_os_error_answer
from sparkfleet.onhost.shared.deployment_record import list_boot_roles, read_deployment_record
from sparkfleet.onhost.shared.labels import (
    CLUSTER_LABEL,
    DEPLOYMENT_LABEL,
    ROLE_LABEL,
)
from sparkfleet.onhost.shared.paths import (
    RefusedError,
    expand_folder,
    find_filesystem,
    locate_cluster_folder,
)
from sparkfleet.onhost.shared.reading import (
    is_same_process,
    load_json_object,
    read_optional_text,
)

GPU_KIND = "nvidia.com/gpu"
HOOK = "nvidia-container-runtime-hook"
CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PATIENCE = 30  # seconds for the daemon to answer
START_PATIENCE = 60  # seconds for a container to start
TICK = 0.1
PUBLISHED = "{{.Names}}\t{{.Image}}\t{{.Ports}}"
PAUSED = "paused"  # a state of a container
LISTENING = "0A"  # a state of /proc/net/tcp
SOCKETS = (
    'for fd in /proc/[0-9]*/fd/*; do readlink "$fd"; done 2>/dev/null'
    " | sed -n 's/^socket:.\\([0-9]*\\).$/\\1/p'"
)
REMOVAL = 5.0  # seconds for a container to be removed; a request may say less
TRIES = 5  # lists of containers, some of which may go meanwhile


class DaemonError(Exception):
    """The error of the container engine."""


def main() -> None:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.readline())
    try:
        request["root"] = expand_folder(request["cluster_dir"])
        if request["do"] != "images":
            request["folder"] = locate_cluster_folder(request["cluster_dir"], request["cluster"])
        handlers = {
            "survey": survey_containers,
            "images": inspect_engine_images,
            "settle": wait_for_container,
            "stop": stop_containers,
        }
        answer = handlers[request["do"]](request)
    except DaemonError as error:
        answer = {"error": str(error), "hint": f"on that host: {request['cli']} ps"}
    except RefusedError as refusal:
        answer = refusal.answer()
    except OSError as error:
        answer = build_os_error_answer(error, request["cluster_dir"])
    print(json.dumps(answer))


def survey_containers(request: dict[str, Any]) -> dict[str, Any]:
    """Return the state: files, the record of the last start, containers, image, daemon."""
    folder = request["folder"]
    with ThreadPoolExecutor(3) as threads:
        daemon = threads.submit(inspect_daemon, request["cli"])
        containers = threads.submit(list_labelled_containers, request)
        image = threads.submit(inspect_engine_images, request)
    answer: dict[str, Any] = {
        "home": str(Path.home()),
        "user": f"{os.getuid()}:{os.getgid()}",
        "folder": str(folder),
        "files": {
            name: read_optional_text(folder / name) for name in list_deployment_files(request)
        },
        "record": read_deployment_record(folder),
        "engine": None,
        "daemon": daemon.result(),
        "cache_filesystem": find_filesystem(request["cache"]),
        "processes": [],
        "containers": [],
    }
    if "error" not in answer["daemon"]:
        answer.update(containers=containers.result(), **image.result())
        answer.update(find_port_holders(request, answer["containers"]))
    for role in list_boot_roles(answer["record"]).values():
        if is_same_process(role["pid"], role["began"]):
            command = f"{request['cli']} run {role['script']}"
            answer["processes"].append({**role, "command": command})
    return answer


def list_deployment_files(request: dict[str, Any]) -> list[str]:
    """Return the files that are or could be part of the deployment."""
    folder = request["folder"]
    mods = (str(path.relative_to(folder)) for path in (folder / "mods").rglob("*"))
    return [*request["files"], *(name for name in mods if (folder / name).is_file())]


def run_engine_command(cli: str, *arguments: str, timeout: float = PATIENCE) -> str:
    """Return what a command of the engine prints; raises DaemonError with the end of its words."""
    try:
        done = subprocess.run(
            [cli, *arguments], capture_output=True, text=True, timeout=timeout, check=False
        )
    except FileNotFoundError:
        raise DaemonError(f"{cli} is not installed") from None
    except subprocess.TimeoutExpired:
        raise DaemonError(f"{cli} {arguments[0]} did not answer within {timeout:.0f} s") from None
    if message := done.returncode and (done.stderr.strip() or f"status {done.returncode}"):
        raise DaemonError(f"{cli} {arguments[0]}: {message}")
    return done.stdout


def inspect_daemon(cli: str) -> dict[str, Any]:
    """Return what the engine says about itself, or its error."""
    try:
        info = json.loads(run_engine_command(cli, "info", "--format", "{{json .}}"))
    except DaemonError as error:
        return {"error": str(error)}
    if errors := info.get("ServerErrors"):
        return {"error": f"{cli} info: {'; '.join(errors)}"}
    root = info.get("DockerRootDir") or (info.get("store") or {}).get("graphRoot", "/")
    folders = info.get("CDISpecDirs") or CDI_FOLDERS
    return {
        "info": info,
        "free": shutil.disk_usage(root).free if Path(root).exists() else None,
        "hook": shutil.which(HOOK, path=SYSTEM_PATH) is not None,
        "cdi": any(
            is_gpu_specification(path) for folder in folders for path in Path(folder).glob("*.*")
        ),
    }


def is_gpu_specification(path: Path) -> bool:
    """Return whether a file is a CDI specification of NVIDIA's GPUs."""
    try:
        return GPU_KIND in path.read_text(errors="replace")
    except OSError:
        return False


def list_labelled_containers(request: dict[str, Any]) -> list[dict[str, str]]:
    """Return every container that carries the cluster's label, also those that ended."""
    cli = request["cli"]
    label = f"label={CLUSTER_LABEL}={request['cluster']}"
    for _ in range(TRIES):
        ids = run_engine_command(cli, "ps", "-aq", "--no-trunc", "--filter", label).split()
        with contextlib.suppress(DaemonError):  # one that goes by itself meanwhile
            return [
                {
                    "id": container["Id"],
                    "name": container["Name"].lstrip("/"),
                    "state": container["State"]["Status"],
                    "pid": str(container["State"]["Pid"]),
                    "role": container["Config"]["Labels"].get(ROLE_LABEL, ""),
                    "deployment": container["Config"]["Labels"].get(DEPLOYMENT_LABEL, ""),
                }
                for container in (
                    json.loads(run_engine_command(cli, "container", "inspect", *ids)) if ids else []
                )
            ]
        time.sleep(TICK)
    raise DaemonError(f"{cli} container inspect: containers of this cluster keep changing")


def find_port_holders(request: dict[str, Any], own: list[dict[str, str]]) -> dict[str, Any]:
    """Return who holds the `ports` of a request, as far as processes do not show their sockets.

    Sockets of root's processes are hidden from this user, so running containers are asked: those of
    this cluster, `own` (``sockets``: inodes, null where one is paused or does not answer), and
    others that use the host's network (``holders``: name and image by inode). ``published`` are
    lines of the ports that all containers publish.
    """
    listening = list_listening_sockets(set(request["ports"]))
    if not listening:
        return {}
    if any(container["state"] == PAUSED for container in own):  # nothing can be run in it
        return {"sockets": None, "published": ""}
    cli = request["cli"]
    running = [container["id"] for container in own if container["state"] == "running"]
    try:
        published = run_engine_command(cli, "ps", "--format", PUBLISHED)
        held = {inode for name in running for inode in list_container_sockets(cli, name)}
    except DaemonError:
        return {"sockets": None if running else [], "published": ""}
    holders: dict[str, str] = {}
    for container, label in list_host_network_containers(cli, running) if listening - held else ():
        with contextlib.suppress(DaemonError):  # without a shell, or on its way out
            sockets = list_container_sockets(cli, container)
            holders.update(dict.fromkeys(listening.intersection(sockets), label))
    return {"sockets": sorted(held), "published": published, "holders": holders}


def list_listening_sockets(ports: set[int]) -> set[str]:
    """Return the inodes of the sockets of this host that listen on one of some TCP ports."""
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in (read_optional_text(Path("/proc/net") / table) or "").splitlines()[1:]
    ]
    return {
        row[9]
        for row in rows
        if row[3] == LISTENING and int(row[1].rpartition(":")[2], 16) in ports
    }


def list_container_sockets(cli: str, container: str) -> list[str]:
    """Return the inodes of the sockets that the processes of a running container hold."""
    return run_engine_command(cli, "exec", container, "sh", "-c", SOCKETS).split()


def list_host_network_containers(cli: str, without: list[str]) -> list[tuple[str, str]]:
    """Return running containers that use the host's network: id, and name with image."""
    try:
        ids = set(run_engine_command(cli, "ps", "-q", "--no-trunc").split()) - set(without)
        text = run_engine_command(cli, "container", "inspect", *sorted(ids)) if ids else "[]"
    except DaemonError:  # one has just ended
        return []
    return [
        (found["Id"], f"{found['Name'].lstrip('/')} ({found['Config']['Image']})")
        for found in json.loads(text)
        if found["HostConfig"]["NetworkMode"] == "host"
    ]


def inspect_engine_images(request: dict[str, Any]) -> dict[str, Any]:
    """Return the image that is wanted, and the one that is derived from it with more packages."""
    image = inspect_image(request, request["image"])
    if not image or not request["pip"]:
        return {"image": image, "derived": None}
    made_of = json.dumps([image["layers"], request["pip"]])
    name = f"sparkfleet-derived:{hashlib.sha256(made_of.encode()).hexdigest()[:12]}"
    return {"image": image, "derived": inspect_image(request, name) or {"name": name}}


def inspect_image(request: dict[str, Any], name: str | None) -> dict[str, Any] | None:
    """Return what the engine knows of an image, with what was found inside it; None if absent."""
    if name is None:
        return None
    try:
        (details,) = json.loads(run_engine_command(request["cli"], "image", "inspect", name))
    except DaemonError:
        return None
    config = details["Config"]
    layers = details["RootFS"]["Layers"]
    key = hashlib.sha256("\n".join(layers).encode()).hexdigest()[:12]
    probe = read_optional_text(request["root"] / "images" / f"{key}.json")
    return {
        "name": name,
        "id": details["Id"],
        "key": key,
        "layers": layers,
        "digests": details.get("RepoDigests") or [],
        "size": details["Size"],
        "environment": config.get("Env") or [],
        "architecture": details["Architecture"],
        "program": [*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())],
        "probe": load_json_object(probe) or None,
    }


def wait_for_container(request: dict[str, Any]) -> dict[str, Any]:
    """Wait until the container of a role that was just started runs, and see that it stays."""
    role = request["role"]
    client = list_boot_roles(read_deployment_record(request["folder"]))[role]
    deadline = time.monotonic() + START_PATIENCE
    running = 0.0
    while time.monotonic() < deadline:
        if not is_same_process(client["pid"], client["began"]):
            return {"error": f"{role} exited immediately"}
        states = [
            container["state"]
            for container in list_labelled_containers(request)
            if container["role"] == role
        ]
        if running and time.monotonic() - running > request["stay"]:
            return {"state": states}
        if "running" in states and not running:
            running = time.monotonic()
        time.sleep(TICK)
    return {"error": f"the container of {role} did not start within {START_PATIENCE} s"}


def stop_containers(request: dict[str, Any]) -> dict[str, Any]:
    """Stop and remove every container of the cluster, and check that none is left."""
    cli = request["cli"]
    grace = request["grace"]
    first = list_labelled_containers(request)
    running = [
        container["id"]
        for container in first
        if container["state"] not in ("exited", "created", "dead")
    ]
    if running:
        run_engine_command(cli, "stop", "-t", str(int(grace)), *running, timeout=grace + PATIENCE)
    deadline = time.monotonic() + grace + request.get("removal", REMOVAL)
    while True:
        left = [container["id"] for container in list_labelled_containers(request)]
        if not left or time.monotonic() > deadline:
            break
        with contextlib.suppress(DaemonError):  # one that goes by itself meanwhile
            run_engine_command(cli, "rm", "-f", "-v", *left)
        time.sleep(TICK)
    if left:
        return {"error": f"{len(left)} containers cannot be removed: {', '.join(left)}"}
    return {"stopped": [container["name"] for container in first]}


if __name__ == "__main__":
    main()
