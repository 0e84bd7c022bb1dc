"""Look at, configure and steer the HAProxy of the gateway on this host.

Request: ``cluster_dir``, ``cluster`` (the folder and label of the gateway), ``do``, and what that
action needs:

- ``look``: Answers ``version`` of HAProxy ("" without it), the gateway's ``files``, ``runs``,
  ``hash`` of what the worker was started with ("" where it does not answer), and ``servers``.
- ``write`` ``contents``: check them with HAProxy, then put them in place.
- ``reload`` ``hash``, ``limit``: start a worker with the files; the one before ends its streams.
- ``wait`` ``hash``, ``limit``: wait until the worker has that hash.
- ``verdicts``: for each backend its ``reason``, and of its servers whether they may get requests.
- ``drain`` ``servers``, ``limit``: send no more requests to them, and wait for those that run.
- ``finish`` ``limit``: let the worker end its streams, and the master with it.

Nothing of a request is in the arguments of a command; keys stay in files of mode 0600.
"""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sparkfleet.onhost.shared.answers import answer_cluster_request
from sparkfleet.onhost.shared.cluster_processes import find_process
from sparkfleet.onhost.shared.deployment_record import list_boot_roles, read_deployment_record
from sparkfleet.onhost.shared.reading import read_optional_text
from sparkfleet.onhost.shared.writing import make_own_folder, replace_file

ROLE = "gateway"
CONFIG = "haproxy.cfg"
SOCKET = "haproxy.sock"
SBIN = ("/usr/local/sbin", "/usr/sbin")
HASH_VARIABLE = "SPARKFLEET_GATEWAY"
ANSWER_LIMIT = 10.0  # seconds for one answer of the worker, and of HAProxy to a check
TICK = 0.1  # seconds
AGAIN = 3.0  # seconds after which a signal that was sent while the master started is sent again
LOG_LINES = 8
FIELDS = ("pxname", "svname", "status", "scur", "stot", "check_status", "last_chk", "addr")


def main() -> None:
    """Answer the request on standard input."""
    answer_cluster_request(
        {
            "look": survey_haproxy,
            "write": write_checked_files,
            "reload": reload_worker,
            "wait": wait_for_worker,
            "verdicts": apply_verdicts,
            "drain": drain_backends,
            "finish": finish_streams,
        }
    )


def survey_haproxy(request: dict[str, Any]) -> dict[str, Any]:
    """Return the files of the gateway, and what runs."""
    folder: Path = request["folder"]
    return {
        "version": read_version(),
        "folder": str(folder),
        "files": {name: read_optional_text(folder / name) for name in request["files"]},
        "recorded": read_deployment_record(folder) is not None,
        "runs": find_master(folder) is not None,
        "hash": read_worker_hash(folder),
        "servers": read_servers(folder),
    }


def read_version() -> str:
    """Return the version of HAProxy on this host, "" where it is not installed."""
    program = find_haproxy()
    if program is None:
        return ""
    finished = subprocess.run(
        [program, "-v"], capture_output=True, text=True, check=False, timeout=ANSWER_LIMIT
    )
    words = finished.stdout.split()
    return words[words.index("version") + 1] if "version" in words[:-1] else "?"


def find_haproxy() -> str | None:
    """Return the path of HAProxy; the PATH of an SSH session may lack the folders for it."""
    return shutil.which("haproxy", path=os.pathsep.join((os.environ.get("PATH", ""), *SBIN)))


def find_master(folder: Path) -> int | None:
    """Return the PID of the master that runs, None without one."""
    role = list_boot_roles(read_deployment_record(folder)).get(ROLE)
    process = find_process(role["pid"]) if role else None
    return process.pid if process and role and process.began == role["began"] else None


def ask_worker(folder: Path, command: str) -> str:
    """Send a command to the worker and return its answer, "" where none runs.

    The path of a socket has at most 107 characters, so it is reached through a descriptor.
    """
    try:
        descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    except FileNotFoundError:
        return ""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(ANSWER_LIMIT)
        try:
            client.connect(f"/proc/self/fd/{descriptor}/{SOCKET}")
            client.sendall(f"{command}\n".encode())
            return b"".join(iter(lambda: client.recv(65536), b"")).decode(errors="replace")
        except OSError:
            return ""
        finally:
            os.close(descriptor)


def read_worker_hash(folder: Path) -> str:
    """Return the hash of the files that the worker was started with, "" where none answers."""
    return ask_worker(folder, f"show env {HASH_VARIABLE}").strip().partition("=")[2]


def read_servers(folder: Path) -> list[dict[str, str]]:
    """Return the servers of all backends as the worker sees them."""
    text = ask_worker(folder, "show stat").lstrip("# ")
    rows = csv.DictReader(io.StringIO(text))
    return [
        {name: row.get(name) or "" for name in FIELDS}
        for row in rows
        if row.get("svname") not in ("FRONTEND", "BACKEND", None)
    ]


def write_checked_files(request: dict[str, Any]) -> dict[str, Any]:
    """Put files in place once HAProxy has accepted them; null removes one."""
    folder: Path = request["folder"]
    make_own_folder(folder)
    contents: dict[str, str | None] = request["contents"]
    if contents.get(CONFIG) is not None and (refusal := check_files(folder / "next", contents)):
        return {"error": f"HAProxy refuses its configuration: {refusal}", "hint": None}
    for name, content in contents.items():
        if content is None:
            (folder / name).unlink(missing_ok=True)
        else:
            replace_file(folder / name, content, 0o700 if name.endswith(".sh") else 0o600)
    return {"written": sorted(contents)}


def check_files(folder: Path, contents: dict[str, str | None]) -> str:
    """Return what HAProxy says against files, "" where it accepts them."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    try:
        for name, content in contents.items():
            replace_file(folder / name, content or "", 0o600)
        finished = subprocess.run(
            [find_haproxy() or "haproxy", "-c", "-f", CONFIG],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=ANSWER_LIMIT,
        )
        alerts = [line for line in finished.stderr.splitlines() if "[ALERT]" in line]
        return "; ".join(alerts) or finished.stderr.strip() if finished.returncode else ""
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def reload_worker(request: dict[str, Any]) -> dict[str, Any]:
    """Start a worker with the files on disk, and wait for it; the former ends its streams.

    The master says in its log why a worker does not start; the former one goes on then.
    """
    folder: Path = request["folder"]
    master = find_master(folder)
    if master is None:
        return {"error": "the gateway is not running", "hint": None}
    log = folder / "logs" / f"{ROLE}.log"
    begin = log.stat().st_size
    alert = re.compile(rf"^\[ALERT\] +\({master}\) : (.*)$", re.MULTILINE)

    def ask() -> None:
        os.kill(master, signal.SIGUSR2)

    def find_refusal() -> str:
        with log.open("rb") as file:
            file.seek(begin)
            return "; ".join(alert.findall(file.read().decode(errors="replace")))

    return wait_for_worker(request, ask, find_refusal)


def wait_for_worker(
    request: dict[str, Any],
    ask: Callable[[], None] = lambda: None,
    find_refusal: Callable[[], str] = lambda: "",
) -> dict[str, Any]:
    """Wait until the worker has ``hash``; `ask` is called at first, and each few seconds."""
    folder: Path = request["folder"]
    deadline = time.monotonic() + request["limit"]
    asked = time.monotonic() - 2 * AGAIN
    while time.monotonic() < deadline:
        if time.monotonic() - asked > AGAIN:
            ask()
            asked = time.monotonic()
        if read_worker_hash(folder) == request["hash"]:
            return {"hash": request["hash"]}
        if find_master(folder) is None:
            return {"error": "HAProxy exited", "hint": read_master_messages(folder)}
        if refusal := find_refusal():
            return {"error": f"HAProxy did not start a worker: {refusal}", "hint": None}
        time.sleep(TICK)
    return {
        "error": f"HAProxy did not start a worker within {request['limit']:.0f} s",
        "hint": read_master_messages(folder),
    }


def read_master_messages(folder: Path) -> str:
    """Return the last lines of the log that are no requests."""
    text = read_optional_text(folder / "logs" / f"{ROLE}.log") or ""
    marks = ("[ALERT]", "[WARNING]", "[NOTICE]")
    return "\n".join([line for line in text.splitlines() if line.startswith(marks)][-LOG_LINES:])


def apply_verdicts(request: dict[str, Any]) -> dict[str, Any]:
    """Set what each backend says when it serves nothing, and which servers get requests.

    A server that may get them is still checked by HAProxy itself.
    """
    folder: Path = request["folder"]
    for verdict in request["verdicts"]:
        backend = verdict["backend"]
        ask_worker(folder, f"set map reasons.map {backend} {escape_word(verdict['reason'])}")
        for server, admitted in verdict["servers"].items():
            state = "ready" if admitted else "maint"
            ask_worker(folder, f"set server {backend}/{server} state {state}")
    return {}


def escape_word(text: str) -> str:
    """Return text as one word of a command to HAProxy."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return "".join(f"\\{letter}" if letter in "\\ ;#\"'" else letter for letter in plain)


def drain_backends(request: dict[str, Any]) -> dict[str, Any]:
    """Send no more requests to servers, and wait for those that run; return how many are left."""
    folder: Path = request["folder"]
    wanted = {tuple(pair) for pair in request["servers"]}
    for backend, server in sorted(wanted):
        ask_worker(folder, f"set server {backend}/{server} state drain")
    deadline = time.monotonic() + request["limit"]
    while True:
        rows = read_servers(folder)
        left = sum(
            int(row["scur"] or 0) for row in rows if (row["pxname"], row["svname"]) in wanted
        )
        if not left or time.monotonic() >= deadline:
            return {"left": left}
        time.sleep(TICK)


def finish_streams(request: dict[str, Any]) -> dict[str, Any]:
    """Take no more requests, wait for those that run, and return whether all have ended."""
    folder: Path = request["folder"]
    deadline = time.monotonic() + request["limit"]
    master = find_master(folder)
    if master is not None:
        os.kill(master, signal.SIGUSR1)
    while find_master(folder) is not None and time.monotonic() < deadline:
        time.sleep(TICK)
    return {"ended": find_master(folder) is None}


if __name__ == "__main__":
    main()
