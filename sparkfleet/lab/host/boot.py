"""The program that boots hosts: each in namespaces of its own, on an overlay of this machine.

``python -m sparkfleet.lab.host.boot SHAPE NAME...`` prints one line of JSON: the process id of
each host's PID 1 by name, or ``{"error": ...}``. SHAPE is that of the fleet's plan, as JSON. It
runs apart from the caller because it forks.
Its standard input is the lab's lock: a caller that waits for it never sees a half-booted host.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import socket
import sys
import traceback
import uuid
from pathlib import Path

from sparkfleet.lab.engine.install import find_base_folders
from sparkfleet.lab.host import gpus, kernel
from sparkfleet.lab.host.disk import (
    CMA_IDLE,
    KERNEL_RELEASE,
    KERNEL_VERSION,
    find_closed_parents,
    merge_meminfo,
)
from sparkfleet.lab.host.driver import mount_sys
from sparkfleet.lab.host.gpu_mounts import bind_driver, bind_read_only, write_driver_facts
from sparkfleet.lab.host.init import run_init
from sparkfleet.lab.host.kernel import MountFlag, Namespace
from sparkfleet.lab.host.sysfs import DRIVER_VERSION
from sparkfleet.lab.paths import (
    CACHE,
    CMA,
    COMMON,
    CONSOLE,
    HOME,
    IMAGES,
    INSIDE,
    KERNEL_MEMINFO,
    NAMESPACES,
    SYS_LAYERS,
    locate_layers,
)
from sparkfleet.lab.plan import HostPlan, plan_shape

DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "fuse", "net/tun")
# Stand-ins for the RDMA devices are /dev/null: a program that opens one can do no harm.
RDMA_DEVICES = ("rdma_cm", "uverbs0", "uverbs1", "uverbs2", "uverbs3")
DEVICE_LINKS = {
    "ptmx": "pts/ptmx",
    "fd": "/proc/self/fd",
    "stdin": "fd/0",
    "stdout": "fd/1",
    "stderr": "fd/2",
}
SAFE = MountFlag.NO_SUID | MountFlag.NO_DEV
PRIVATE_FOLDERS = (("dev/shm", "mode=1777"), ("run", "mode=755"), ("tmp", "mode=1777"))
UNLIMITED = resource.RLIM_INFINITY
KERNEL_FACTS = {
    "sys/kernel/osrelease": f"{KERNEL_RELEASE}\n",
    "version": f"Linux version {KERNEL_RELEASE} (buildd@bos03-arm64-001) {KERNEL_VERSION}\n",
}
DRIVER_FACT = f"NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  {DRIVER_VERSION}\n"
LIMITS = ((resource.RLIMIT_MEMLOCK, UNLIMITED), (resource.RLIMIT_NOFILE, 1048576))


def main() -> None:
    """Boot the hosts that the command line names, all at once, and say how it went."""
    os.umask(0o022)
    shape, *names = sys.argv[1:]
    fleet = plan_shape(json.loads(shape))
    gc.freeze()  # what the forks share stays shared
    started = {name: _fork_host(fleet.host(name)) for name in names}
    answer: dict[str, object] = {}
    for name, pipe in started.items():
        with os.fdopen(pipe, encoding="utf-8") as stream:
            pid1, _, error = stream.read().partition("\n")
        if error or not pid1:
            answer = {"error": f"{name} did not boot: {error or 'killed'}"}
            break
        answer[name] = int(pid1)
    print(json.dumps(answer), flush=True)  # noqa: T201 - the program's answer


def _fork_host(host: HostPlan) -> int:
    """Fork a host and return the pipe on which it says its PID, and then only an error."""
    read_end, write_end = os.pipe()
    if os.fork():
        os.close(write_end)
        return read_end
    try:
        os.close(read_end)
        log = os.open(locate_layers(host.name) / CONSOLE, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        _enter_namespaces(host, write_end)
        _build_root(host)
        _redirect_streams(log)
        run_init(host, ready=write_end)
    except BaseException:  # noqa: BLE001 - the only way out of a fork is the pipe
        os.write(write_end, traceback.format_exc().encode())
    os._exit(1)


def _enter_namespaces(host: HostPlan, pipe: int) -> None:
    """Move into the host's namespaces; only the new PID 1 returns from here."""
    os.setsid()
    kernel.enter_namespace(NAMESPACES / host.namespace, Namespace.NET)
    kernel.unshare(Namespace.MOUNT | Namespace.UTS | Namespace.IPC | Namespace.PID)
    if pid1 := os.fork():
        os.write(pipe, f"{pid1}\n".encode())
        os._exit(0)


def _redirect_streams(log: int) -> None:
    """Let go of the caller's streams, and so of the lock."""
    null = os.open(os.devnull, os.O_RDWR)
    for target, source in ((0, null), (1, log), (2, log)):
        os.dup2(source, target)


def _build_root(host: HostPlan) -> None:
    """Build the host's root and enter it."""
    kernel.set_name(kernel.INIT_NAME)
    socket.sethostname(host.name)
    kernel.mount("", "/", flags=MountFlag.RECURSIVE | MountFlag.PRIVATE)
    root = locate_layers(host.name) / "root"
    kernel.mount_overlay(root, f"{COMMON}:/", locate_layers(host.name) / "disk")
    _mount_system(root, host)
    _make_devices(root, host)
    _bind_machine_folders(root)
    if host.gpu:
        bind_driver(root, host)
    home = root / _relative_path(HOME)
    home.mkdir(parents=True, exist_ok=True)
    kernel.mount(locate_layers(host.name) / "home", home, flags=MountFlag.BIND)
    images = root / _relative_path(IMAGES)
    images.mkdir(parents=True, exist_ok=True)
    kernel.mount(locate_layers(host.name) / "docker", images, flags=MountFlag.BIND)
    for folder in find_closed_parents(_find_interpreters()):
        inside = root / _relative_path(folder)
        inside.chmod(inside.stat().st_mode | 0o001)
    _write_kernel_facts(root, host)
    kernel.pivot_root(root)
    _set_limits()


def _find_interpreters() -> list[Path]:
    """Return the programs that a host's user must be able to run: our Python, the engines'."""
    venvs = (path.resolve() for path in CACHE.glob("engine-*/bin/python"))
    bases = (folder / "bin" for folder in find_base_folders())
    return [Path(sys.executable).resolve(), CACHE / "engine", *venvs, *bases]


def _mount_system(root: Path, host: HostPlan) -> None:
    """Mount the private /proc, /sys, /run, /tmp and /dev."""
    kernel.mount("proc", root / "proc", "proc", SAFE | MountFlag.NO_EXEC)
    mount_sys(root / "sys", locate_layers(host.name) / "sys")
    kernel.mount("dev", root / "dev", "tmpfs", MountFlag.NO_SUID, data="mode=755,size=1m")
    (root / "dev/shm").mkdir()
    for folder, mode in PRIVATE_FOLDERS:
        kernel.mount("tmpfs", root / folder, "tmpfs", SAFE, data=mode)


def _make_devices(root: Path, host: HostPlan) -> None:
    dev = root / "dev"
    for folder in ("pts", "net", "infiniband"):
        (dev / folder).mkdir()
    pairs = [(Path("/dev") / name, dev / name) for name in DEVICES]
    pairs += [(Path("/dev/null"), dev / "infiniband" / name) for name in RDMA_DEVICES]
    if host.gpu:
        pairs += [(Path("/dev") / name, dev / name) for name in gpus.list_device_files(host.gpu)]
    for source, target in pairs:
        if source.exists():
            target.touch()
            kernel.mount(source, target, flags=MountFlag.BIND)
    options = "newinstance,ptmxmode=666,mode=620,gid=5"
    kernel.mount(
        "devpts", dev / "pts", "devpts", MountFlag.NO_SUID | MountFlag.NO_EXEC, data=options
    )
    for name, leads_to in DEVICE_LINKS.items():
        (dev / name).symlink_to(leads_to)


def _bind_machine_folders(root: Path) -> None:
    """Show what lies on other filesystems of this machine: an overlay sees only that of ``/``."""
    folders = {CACHE, Path(sys.base_prefix).resolve(), *find_base_folders()}
    for folder in sorted(folders):
        if folder.is_dir() and folder.stat().st_dev != Path("/").stat().st_dev:
            inside = root / _relative_path(folder)
            inside.mkdir(parents=True, exist_ok=True)
            bind_read_only(folder, inside)


def _write_kernel_facts(root: Path, host: HostPlan) -> None:
    """Put a Spark's facts over those of this machine's kernel in /proc."""
    (root / _relative_path(INSIDE)).mkdir()
    (root / _relative_path(SYS_LAYERS)).mkdir()
    kernel.mount(
        locate_layers(host.name) / "sys", root / _relative_path(SYS_LAYERS), flags=MountFlag.BIND
    )
    (root / _relative_path(CMA)).write_text(CMA_IDLE)
    (root / _relative_path(KERNEL_MEMINFO)).touch()
    kernel.mount(root / "proc/meminfo", root / _relative_path(KERNEL_MEMINFO), flags=MountFlag.BIND)
    memory = merge_meminfo((root / _relative_path(KERNEL_MEMINFO)).read_text(), CMA_IDLE)
    boot = {"sys/kernel/random/boot_id": f"{uuid.uuid4()}\n"}  # all hosts run on one kernel
    for name, text in {"meminfo": memory, **boot, **KERNEL_FACTS}.items():
        fake = root / _relative_path(INSIDE) / Path(name).name
        fake.write_text(text)
        kernel.mount(fake, root / "proc" / name, flags=MountFlag.BIND)
    if (root / "proc/driver").is_dir():
        kernel.mount("tmpfs", root / "proc/driver", "tmpfs", SAFE, data="mode=755,size=1m")
        write_driver_facts(root, host, DRIVER_FACT)


def _relative_path(path: Path) -> Path:
    return path.relative_to("/")


def _set_limits() -> None:
    """Allow what a Spark allows its users: ping, locked memory, open files."""
    Path("/proc/sys/net/ipv4/ping_group_range").write_text("0 2147483647")
    for limit, value in LIMITS:
        try:
            resource.setrlimit(limit, (value, value))
        except (ValueError, OSError):  # without CAP_SYS_RESOURCE the machine's own limit stays
            soft, hard = resource.getrlimit(limit)
            resource.setrlimit(limit, (hard if soft != hard else soft, hard))


if __name__ == "__main__":
    main()
