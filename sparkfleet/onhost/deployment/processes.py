"""Look at, start and stop the processes of one cluster's deployment on this host.

Request: ``do`` (survey, write, start, started, stop), ``cluster_dir``, ``cluster``, and what that
action needs.

Processes of a cluster are found as `shared/cluster_processes.py` says. No other process gets a
signal.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from sparkfleet.onhost.shared.answers import answer_cluster_request
from sparkfleet.onhost.shared.cluster_processes import (
    HostProcess,
    find_process,
    is_process_alive,
    list_cluster_processes,
)
from sparkfleet.onhost.shared.deployment_record import (
    list_boot_roles,
    read_boot_id,
    read_deployment_record,
)
from sparkfleet.onhost.shared.labels import DEPLOYMENT_RECORD, GUARD_RECORD
from sparkfleet.onhost.shared.paths import join_relative_path
from sparkfleet.onhost.shared.reading import is_same_process, read_optional_text
from sparkfleet.onhost.shared.writing import make_own_folder, replace_file

TICK = 0.05  # seconds between looks at a process
START_TICK = 0.01  # seconds, the same while a script starts
REST_WAIT = 5.0  # seconds for what outlives its leader
PTH_FILES = 100  # of an environment, and lines of each, that are looked at
KILLS = ((signal.SIGKILL, REST_WAIT),) * 3  # who is forked meanwhile is in the next list only


def main() -> None:
    """Answer the request on standard input."""
    answer_cluster_request(
        {
            "survey": survey_processes,
            "write": write_deployment_files,
            "start": start_role_script,
            "started": find_started_role,
            "stop": stop_cluster_processes,
        }
    )


def survey_processes(request: dict[str, Any]) -> dict[str, Any]:
    """Return the state: files, the record of the last start, live processes, the engine."""
    folder = request["folder"]
    return {
        "home": str(Path.home()),
        "folder": str(folder),
        "files": {name: read_optional_text(folder / name) for name in request["files"]},
        "record": read_deployment_record(folder),
        "processes": [describe_process(process) for process in list_own_processes(request)],
        "engine": inspect_venv(request["venv"]),
    }


def write_deployment_files(request: dict[str, Any]) -> dict[str, Any]:
    """Put files in place, each whole or not at all; one that is given as null is removed."""
    folder: Path = request["folder"]
    paths = {name: join_relative_path(folder, name) for name in request["contents"]}
    make_own_folder(folder)
    for name, content in request["contents"].items():
        path = paths[name]
        if content is None:
            path.unlink(missing_ok=True)
            continue
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = 0o700 if name.endswith(".sh") else 0o600
        replace_file(path, content, mode)
    return {"written": sorted(request["contents"])}


def find_started_role(request: dict[str, Any]) -> dict[str, Any]:
    """Return the PID of a role that was started with a hash and still runs, else null."""
    record = read_deployment_record(request["folder"])
    role = list_boot_roles(record).get(request["role"])
    runs = (
        record is not None
        and role is not None
        and record["hash"] == request["hash"]
        and is_same_process(role["pid"], role["began"])
    )
    return {"pid": role["pid"] if role and runs else None}


def start_role_script(request: dict[str, Any]) -> dict[str, Any]:
    """Write ``contents``, start a rendered script in its own session, and check that it stays.

    It stays if it runs after ``settle`` s, or has become the program that it execs: the wait for
    that program sees it end.
    """
    folder = request["folder"]
    role = request["role"]
    if request.get("contents"):
        write_deployment_files(request)
    path = folder / "logs" / f"{role}.log"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    for old in (
        [path] if read_deployment_record(folder) else path.parent.glob("*.log")
    ):  # of what ran before
        if old.exists() and old.stem != "guard":
            old.replace(old.with_suffix(".log.1"))
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "wb") as output:
        child = subprocess.Popen(
            ["bash", str(folder / request["script"])],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=Path.home(),
        )
    record_start(request, role, child.pid)
    wait_for_program(child, request["settle"])
    if child.poll() is not None:
        return {"error": f"{role} exited immediately with status {child.returncode}"}
    return {"pid": child.pid, "log": str(path)}


def wait_for_program(child: subprocess.Popen[bytes], limit: float) -> None:
    """Wait until a script has ended or has become another program, `limit` s at most."""
    shell = os.path.realpath(shutil.which("bash") or "")
    deadline = time.monotonic() + limit
    while child.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError):  # it has just ended
            if str(Path(f"/proc/{child.pid}/exe").readlink()) != shell:
                return
        time.sleep(START_TICK)


def record_start(request: dict[str, Any], role: str, pid: int) -> None:
    """Record who runs as `role`, so that a later run knows it again."""
    began = getattr(find_process(pid), "began", 0)
    roles = list_boot_roles(read_deployment_record(request["folder"]))
    roles[role] = {"pid": pid, "began": began, "script": request["script"]}
    content = {name: request.get(name) for name in ("hash", "cli", "about")}
    content["boot"] = read_boot_id()
    write_deployment_files(
        {**request, "contents": {DEPLOYMENT_RECORD: json.dumps({**content, "roles": roles})}}
    )


def stop_cluster_processes(request: dict[str, Any]) -> dict[str, Any]:
    """Stop every process of the cluster, and check that none is left.

    First each role's leader, the newest first, since `vllm serve` and `ray start --block` end what
    they started in order; a Ray whose parts are all signalled at once waits for itself. Then what
    is left, with TERM and with KILL, each for a bounded time. With `keep` the records stay, so that
    what was ended shows as dead; else the memory guard ends with its own.
    """
    first = list_own_processes(request)
    last_start = read_deployment_record(request["folder"]) or {}
    for role in reversed(list(list_boot_roles(last_start).values())):
        leader = find_process(role["pid"])
        if leader and leader.began == role["began"]:
            signal_processes([leader], signal.SIGTERM, request["grace"])
    rest = min(REST_WAIT, request["grace"])
    for number, wait in ((signal.SIGTERM, rest), *KILLS):
        signal_processes(
            [*filter(is_process_alive, first), *list_own_processes(request)], number, wait
        )
    if left := [*filter(is_process_alive, first), *list_own_processes(request)]:
        return {"error": f"{len(left)} processes outlived SIGKILL: {[p.pid for p in left]}"}
    removed = {} if request.get("keep") else {DEPLOYMENT_RECORD: None, GUARD_RECORD: None}
    write_deployment_files({**request, "contents": removed})
    return {"stopped": [process.pid for process in first], "cli": last_start.get("cli")}


def signal_processes(processes: list[HostProcess], number: int, wait: float) -> None:
    """Signal `processes`, and wait until none of them is left, at most `wait` seconds.

    A process that was stopped by SIGSTOP would take no SIGTERM before SIGCONT.
    """
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)
            os.kill(process.pid, signal.SIGCONT)
    deadline = time.monotonic() + wait
    while time.monotonic() < deadline and any(map(is_process_alive, processes)):
        time.sleep(TICK)


def list_own_processes(request: dict[str, Any]) -> list[HostProcess]:
    """Return every live process of the requested cluster."""
    return list_cluster_processes(request["folder"], request["cluster"])


def describe_process(process: HostProcess) -> dict[str, Any]:
    """Return the part of a process that may leave the host."""
    command = (
        (read_optional_text(Path(f"/proc/{process.pid}/cmdline")) or "").replace("\0", " ").strip()
    )
    return {"pid": process.pid, "began": process.began, "command": command[:200]}


def inspect_venv(venv: str | None) -> dict[str, Any] | None:
    """Return versions in a Python environment, from its metadata: importing vLLM takes 45 s."""
    if venv is None:
        return None
    path = Path(venv).expanduser()
    versions: dict[str, Any] = {"path": str(path), "exists": (path / "bin/python").exists()}
    for folder in list_site_folders(path):
        for entry in sorted(folder.glob("*.dist-info")):
            if match := re.match(r"(vllm|ray|torch|transformers)-(.+)\.dist-info$", entry.name):
                versions.setdefault(match.group(1), match.group(2))
    for source in path.glob("lib/python3*/site-packages/vllm/engine/arg_utils.py"):
        versions["nodes"] = "nnodes" in (read_optional_text(source) or "")
    return versions


def list_site_folders(venv: Path) -> list[Path]:
    """Return the folders of packages in the order in which Python searches them.

    A line of a ``.pth`` file may name one outside of the environment, as of a torch that several
    share (https://docs.python.org/3/library/site.html).
    """
    folders = sorted(venv.glob("lib/python3*/site-packages"))
    for site in list(folders):
        for file in sorted(site.glob("*.pth"))[:PTH_FILES]:
            lines = (read_optional_text(file) or "").splitlines()[:PTH_FILES]
            named = (site / line.strip() for line in lines if line.strip().startswith("/"))
            folders.extend(folder for folder in named if folder.is_dir())
    return folders


if __name__ == "__main__":
    main()
