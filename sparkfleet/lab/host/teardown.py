"""Remove a lab from this machine, whatever is left of it.

Nothing here trusts the state file: the lab is found by its names (network namespaces and
interfaces), by its folders (mounts), and by the namespaces of its processes or their name as
PID 1 of a host.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from sparkfleet.errors import UsageError
from sparkfleet.lab.host import kernel
from sparkfleet.lab.paths import CGROUP, CONTROL_NIC, LAYERS, NAMESPACES, PREFIX, RUN
from sparkfleet.lab.state import read_start_ticks

CGROUPS = Path("/sys/fs/cgroup")
PATIENCE = 30.0  # seconds for killed processes to end; those of vLLM have much memory to free
THAW = {"freezer.state": "THAWED", "cgroup.freeze": "0"}  # by file, of cgroup v1 and v2


def remove_lab() -> None:
    """Remove every process, interface, namespace, mount and folder of the lab."""
    names = list_namespaces()
    thaw_cgroups()
    kill_processes(list_lab_processes(names))
    _remove_control()
    for name in names:
        _remove_namespace(name)
    _remove_netns_mount()
    for target in sorted(_mounts_below(LAYERS), key=len, reverse=True):
        kernel.unmount(target)
    for folder in (LAYERS, RUN):
        shutil.rmtree(folder, ignore_errors=True)
    _remove_cgroups()


def list_namespaces() -> list[Path]:
    """Return the files that stand for our network namespaces."""
    return sorted(NAMESPACES.glob(f"{PREFIX}*")) if NAMESPACES.is_dir() else []


def list_lab_processes(names: Iterable[Path]) -> list[int]:
    """Return the processes in one of those network namespaces, and every PID 1 of a lab host."""
    inodes = {name.stat().st_ino for name in names}
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended
            if (entry / "ns/net").stat().st_ino in inodes or _is_init(entry):
                pids.append(int(entry.name))
    return pids


def _is_init(process: Path) -> bool:
    """Whether a process calls itself PID 1 of a lab host and is one, of a host of this machine.

    In a host's PID namespace, one below this machine's, it has id 1. The hosts of a lab within a
    container are one deeper, and are not this machine's.
    """
    if (process / "comm").read_text() != f"{kernel.INIT_NAME}\n":
        return False
    lines = (process / "status").read_text().splitlines()
    ids = next((line.split()[1:] for line in lines if line.startswith("NSpid:")), [])
    return ids[1:] == ["1"]


def kill_processes(pids: Iterable[int]) -> None:
    """Kill processes and wait until they have ended."""
    left = list(pids)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE
    while left := [pid for pid in left if read_start_ticks(pid) is not None]:
        if time.monotonic() > deadline:
            raise UsageError(
                f"lab processes outlive SIGKILL: {', '.join(map(str, left))}",
                hint="blocked in the kernel: see /proc/PID/stack, then run {task:lab.down} again",
            )
        time.sleep(0.002)


def thaw_cgroups(cgroups: Path = CGROUPS) -> None:
    """Let paused containers of the hosts run: a frozen process does not end by SIGKILL."""
    for folder in _list_cgroups(cgroups):
        for name, text in THAW.items():
            if (folder / name).exists():
                with contextlib.suppress(OSError):
                    (folder / name).write_text(text)


def _remove_cgroups() -> None:
    """Remove the cgroups of the hosts' containers; one that is in use is another lab's."""
    for folder in _list_cgroups(CGROUPS):
        with contextlib.suppress(OSError):
            folder.rmdir()


def _list_cgroups(cgroups: Path) -> Iterator[Path]:
    """Yield the cgroups of the lab, those within another first."""
    for root in (*cgroups.glob(CGROUP), *cgroups.glob(f"*/{CGROUP}")):
        for folder, _, _ in os.walk(root, topdown=False):
            yield Path(folder)


def _remove_control() -> None:
    if Path("/sys/class/net", CONTROL_NIC).exists():  # asking the kernel to delete it may wait
        subprocess.run(["ip", "link", "delete", CONTROL_NIC], capture_output=True, check=False)


def _remove_namespace(name: Path) -> None:
    with contextlib.suppress(OSError):  # an interrupted `ip netns add` leaves a plain file
        kernel.unmount(name)
    name.unlink(missing_ok=True)


def _remove_netns_mount() -> None:
    """Undo the bind mount of /run/netns on itself, which the first `ip netns add` made."""
    if str(NAMESPACES) in _mounts_below(NAMESPACES) and not any(NAMESPACES.iterdir()):
        kernel.unmount(NAMESPACES)
        NAMESPACES.rmdir()


def _mounts_below(folder: Path) -> set[str]:
    targets = (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return {
        target for target in targets if target == str(folder) or target.startswith(f"{folder}/")
    }
