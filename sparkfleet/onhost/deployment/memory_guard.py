"""Guard this host's memory: end one cluster's ranks before the kernel, starved, ends SSH too.

Request: ``cluster_dir``, ``cluster``, ``loading`` and ``serving`` (bytes that must stay available),
``samples`` (how many in a row may be below), ``patience`` (s for the memory of what was stopped
before to come back), ``ends`` (commands that end the ranks and only them, each
``{"argv": [...], "stdin": base64}``).

The answer comes when the guard has taken its first sample. From then on it needs no connection: it
lives as long as ``guard.json`` names it, so removing that file stops it. The file
``guard.serving`` means that loading is over. What it did and why stays in ``guard.json``, and in
its log.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from sparkfleet.onhost.shared.answers import build_os_error_answer
from sparkfleet.onhost.shared.labels import GUARD_RECORD, GUARD_SERVING
from sparkfleet.onhost.shared.paths import RefusedError, locate_cluster_folder
from sparkfleet.onhost.shared.reading import load_json_object, read_optional_text
from sparkfleet.onhost.shared.writing import replace_file

TICK = 0.25  # seconds between samples; an NVMe disk fills 2 GB of memory in that time
ARMING = 5.0  # seconds for the first sample
ENDING = 60.0  # seconds for a command that ends ranks
MAX_NAMED = 6  # processes that a reason names
MAX_OF_A_NAME = 15  # bytes of a name that the kernel keeps
ARGUMENTS_START = 45  # of the fields after the name in /proc/PID/stat: arg_start, then arg_end
GIB = 1 << 30
PAGE = os.sysconf("SC_PAGE_SIZE")
GPU = ("nvidia-smi", "--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader")
GPU_PATIENCE = 3.0  # seconds; a starved driver may never answer


def main() -> None:
    """Answer the request on standard input; the guard itself never returns to here."""
    request = json.loads(sys.stdin.readline())
    try:
        answer = start_guard(
            request, locate_cluster_folder(request["cluster_dir"], request["cluster"])
        )
    except RefusedError as refusal:
        answer = refusal.answer()
    except OSError as error:
        answer = build_os_error_answer(error, request["cluster_dir"])
    print(json.dumps(answer))


def start_guard(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Start a guard in place of any other, and return what its first sample was."""
    deadline = time.monotonic() + request["patience"]
    while read_available_memory() < request["loading"]:
        if time.monotonic() > deadline:
            free, limit = (
                f"{size / GIB:.1f} GiB" for size in (read_available_memory(), request["loading"])
            )
            return {
                "error": (
                    f"only {free} of memory is available; the guard stops ranks below {limit}"
                ),
                "hint": "find the processes that use memory: ps aux --sort=-rss | head; nvidia-smi",
            }
        time.sleep(TICK)
    (folder / "logs").mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        (folder / GUARD_SERVING).unlink()
    reader, writer = os.pipe()
    if os.fork() == 0:
        run_guard(request, folder, writer)
    os.close(writer)
    os.wait()
    first_sample = os.read(reader, 4096) if select.select([reader], [], [], ARMING)[0] else b""
    if not first_sample:
        return {"error": "the memory guard did not start", "hint": f"see {folder}/logs/guard.log"}
    return dict(json.loads(first_sample))


def run_guard(request: dict[str, Any], folder: Path, pipe: int) -> None:
    """Detach from the connection, report the first sample, and watch."""
    os.setsid()
    if os.fork():
        os._exit(0)
    log = os.open(folder / "logs" / "guard.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for target, source in ((0, os.open(os.devnull, os.O_RDONLY)), (1, log), (2, log)):
        os.dup2(source, target)
    os.chdir("/")
    with contextlib.suppress(OSError):  # only root may ask to be spared
        Path("/proc/self/oom_score_adj").write_text("-900")
    show_name(f"sparkfleet-memory-guard {request['cluster']}")
    limits = {name: request[name] for name in ("loading", "serving", "samples")}
    state = {"pid": os.getpid(), "available": read_available_memory(), **limits, "reason": None}
    write_guard_state(folder, state)
    os.write(pipe, json.dumps(state).encode())
    os.close(pipe)
    watch_memory(request, folder, state)
    os._exit(0)


def show_name(name: str) -> None:
    """Have `ps` and `top` show `name`, in place of the command that started this Python.

    The kernel shows the words that a process keeps between arg_start and arg_end, and the process
    may change them. https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        Path("/proc/self/comm").write_text(name[:MAX_OF_A_NAME])
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        start, end = int(fields[ARGUMENTS_START]), int(fields[ARGUMENTS_START + 1])
        room = end - start
        with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
            memory.seek(start)
            memory.write(name.encode()[: room - 1].ljust(room, b"\0"))


def watch_memory(request: dict[str, Any], folder: Path, state: dict[str, Any]) -> None:
    """Take samples until this guard is dismissed, or has ended the ranks."""
    low = 0
    while is_current_guard(folder):
        phase = "serving" if (folder / GUARD_SERVING).exists() else "loading"
        free = read_available_memory()
        low = low + 1 if free < request[phase] else 0
        if low >= request["samples"]:
            gpu = start_gpu_query()
            state["reason"] = {"at": time.time(), "phase": phase, "available": free}
            state["reason"].update(limit=request[phase], top=list_largest_processes(), gpu=[])
            record_reason(folder, state, format_reason(state["reason"]))
            ended = [run_end_command(command) for command in request["ends"]]
            state["reason"]["gpu"] = finish_gpu_query(gpu)
            record_reason(
                folder, state, [f"    on the GPU: {line}" for line in state["reason"]["gpu"]]
            )
            if all(ended):
                return
        time.sleep(TICK)


def read_available_memory() -> int:
    """Return MemAvailable in bytes: what can be had without swapping; raises OSError."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise OSError(0, "no MemAvailable", "/proc/meminfo")


def is_current_guard(folder: Path) -> bool:
    """Return whether `guard.json` still names this process."""
    try:
        state = load_json_object(read_optional_text(folder / GUARD_RECORD))
    except OSError:
        return False
    return state.get("pid") == os.getpid()


def write_guard_state(folder: Path, state: dict[str, Any]) -> None:
    """Write `guard.json`, whole or not at all."""
    replace_file(folder / GUARD_RECORD, json.dumps(state), 0o600)


def record_reason(folder: Path, state: dict[str, Any], lines: list[str]) -> None:
    """Keep the reason, unless this guard was dismissed meanwhile, and log `lines` of it."""
    with contextlib.suppress(OSError):  # a full disk must not keep it from acting
        if is_current_guard(folder):
            write_guard_state(folder, state)
    write_log("\n".join(lines))


def format_reason(reason: dict[str, Any]) -> list[str]:
    """Return a reason as lines, the first in the form that the doctor knows."""
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(reason["at"]))
    free, limit = (f"{reason[name] / GIB:.1f} GiB" for name in ("available", "limit"))
    lines = [f"{at} memory guard: {free} available, below {limit} while {reason['phase']}"]
    rows = ((process["rss"] / GIB, process["pid"], process["name"]) for process in reason["top"])
    return [*lines, *("    {:6.1f} GiB  {}  {}".format(*row) for row in rows)]


def write_log(text: str) -> None:
    """Log `text`, if the disk takes it."""
    with contextlib.suppress(OSError):
        os.write(1, f"{text}\n".encode())


def list_largest_processes() -> list[dict[str, Any]]:
    """Return the processes with the most resident memory, bytes; the GPU's is not in it."""
    processes = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            size = int((folder / "statm").read_text().split()[1]) * PAGE
            processes.append((size, int(folder.name), (folder / "comm").read_text().strip()))
    processes.sort(reverse=True)
    return [{"pid": pid, "name": name, "rss": size} for size, pid, name in processes[:MAX_NAMED]]


def start_gpu_query() -> subprocess.Popen[str] | None:
    """Ask who holds memory of the GPU, without waiting for the answer."""
    try:
        return subprocess.Popen(GPU, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        return None


def finish_gpu_query(query: subprocess.Popen[str] | None) -> list[str]:
    """Return the lines of an answer that came in time."""
    if query is None:
        return []
    try:
        return query.communicate(timeout=GPU_PATIENCE)[0].splitlines()
    except subprocess.TimeoutExpired:
        query.kill()
        return []


def run_end_command(command: dict[str, Any]) -> bool:
    """Run a command that ends ranks, log what it says, and return whether it did."""
    try:
        done = subprocess.run(
            command["argv"],
            input=base64.b64decode(command["stdin"]),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=ENDING,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        write_log(str(error))
        return False
    output = done.stdout.decode(errors="replace")
    write_log(output.strip())
    return done.returncode == 0 and '"error":' not in output


if __name__ == "__main__":
    main()
