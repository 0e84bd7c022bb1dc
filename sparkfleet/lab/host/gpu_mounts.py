"""Shows a host its real GPU and NVIDIA's driver while its root is built."""

from __future__ import annotations

import subprocess
from pathlib import Path

from sparkfleet.lab.engine.requirements import find_tool
from sparkfleet.lab.host import gpus, kernel
from sparkfleet.lab.host.kernel import MountFlag
from sparkfleet.lab.host.tree import FileTree
from sparkfleet.lab.plan import HostPlan


def bind_driver(root: Path, host: HostPlan) -> None:
    """Show the driver's files on other filesystems, and let the host's linker find them."""
    for path in gpus.list_driver_mounts(Path("/proc/self/mountinfo").read_text()):
        if host.stand_in and path == gpus.PROGRAM_PATH:
            continue
        inside = root / path.relative_to("/")
        if path.is_dir():
            inside.mkdir(parents=True, exist_ok=True)
        elif not inside.exists():
            inside.parent.mkdir(parents=True, exist_ok=True)
            inside.touch()
        bind_read_only(path, inside)
    if linker := find_tool("ldconfig"):
        subprocess.run([linker, "-r", str(root)], capture_output=True, check=False)


def bind_read_only(source: Path, target: Path) -> None:
    """Show `source`, a file or a folder, at `target`, read-only."""
    kernel.mount(source, target, flags=MountFlag.BIND)
    kernel.mount("", target, flags=MountFlag.BIND | MountFlag.REMOUNT | MountFlag.READ_ONLY)


def write_driver_facts(root: Path, host: HostPlan, stand_in: str) -> None:
    """Fill /proc/driver/nvidia, an empty filesystem; `stand_in` is the version file of a Spark."""
    files = {"version": stand_in}
    if host.gpu:  # the libraries of the real driver read the other files
        files = gpus.build_proc_files(host.gpu) | (files if host.stand_in else {})
    FileTree(files=files).write(root / gpus.PROC)
