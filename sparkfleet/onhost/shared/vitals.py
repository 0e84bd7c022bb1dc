"""Readings that several programs take of this host: its tools, its endpoint, its lock."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

PATIENCE = 5  # s for a tool or the endpoint
APPS = ("nvidia-smi", "--query-compute-apps=pid,process_name,used_memory", "--format=csv")
GPU_STATE = ("nvidia-smi", "--query-gpu=power.draw,temperature.gpu,clocks.sm", "--format=csv")
# The end of the boot before: journalctl(1), last(1) of https://man7.org/linux/man-pages
JOURNAL = ("journalctl", "-b", "-1", "-n", "60", "-o", "short-unix", "--no-pager", "-q")
WTMP = ("last", "-Fxn2", "shutdown", "reboot")
GPU_REASONS = ("nvidia-smi", "--query-gpu=clocks_event_reasons.active", "--format=csv")


class ToolOutput(NamedTuple):
    """The output of a tool; None with its `error` where it failed, without where it is absent."""

    text: str | None
    error: str = ""


class EndpointAnswer(NamedTuple):
    """An answer of the endpoint; its `status` is 0, with the `error`, where there was none."""

    status: int
    text: str = ""
    error: str = ""


def run_tool(*argv: str, patience: float = PATIENCE) -> ToolOutput:
    """Return the output of a tool within `patience` s."""
    if shutil.which(argv[0]) is None:
        return ToolOutput(None)
    try:
        done = subprocess.run(argv, capture_output=True, timeout=patience, check=False)
    except subprocess.TimeoutExpired:
        return ToolOutput(None, f"no answer within {patience:.0f} s")
    text = done.stdout.decode(errors="replace")
    if done.returncode == 0:
        return ToolOutput(text)
    words = (done.stderr.decode(errors="replace").strip() or text.strip()).splitlines()
    return ToolOutput(None, words[-1] if words else f"status {done.returncode}")


def read_last_boot(patience: float) -> dict[str, str]:
    """Return the end of that boot's ``journal``, and ``wtmp``; "" where a tool lists none."""
    return {
        "journal": run_tool(*JOURNAL, patience=patience).text or "",
        "wtmp": run_tool(*WTMP, patience=patience).text or "",
    }


def ask_endpoint(url: str, path: str, *, patience: float = PATIENCE) -> EndpointAnswer:
    """Return the answer of the endpoint on this host; `patience` s may pass without a byte."""
    try:
        with urllib.request.urlopen(url + path, timeout=patience) as reply:
            return EndpointAnswer(reply.status, reply.read().decode(errors="replace"))
    except urllib.error.HTTPError as error:
        error.close()
        return EndpointAnswer(error.code)
    except urllib.error.URLError as error:
        return EndpointAnswer(0, error=str(error.reason))
    except (OSError, HTTPException) as error:
        return EndpointAnswer(0, error=str(error) or repr(error))


def is_lock_held(lock: Path) -> bool:
    """Return whether a run holds the lock of the cluster."""
    try:
        with lock.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
