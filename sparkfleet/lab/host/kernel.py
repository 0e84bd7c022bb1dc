"""The handful of Linux system calls that Python does not offer (os.unshare came with 3.12)."""

from __future__ import annotations

import ctypes
import enum
import os
from pathlib import Path

INIT_NAME = "sfl-init"  # what PID 1 of a host calls itself
_LIBC = ctypes.CDLL(None, use_errno=True)
_MNT_DETACH = 2
_PR_SET_NAME = 15


class Namespace(enum.IntFlag):
    """The namespaces of a host; values of clone(2)."""

    MOUNT = 0x00020000
    UTS = 0x04000000
    IPC = 0x08000000
    PID = 0x20000000
    NET = 0x40000000


class MountFlag(enum.IntFlag):
    """Mount options that are flags; values of mount(2)."""

    NONE = 0
    READ_ONLY = 0x1
    NO_SUID = 0x2
    NO_DEV = 0x4
    NO_EXEC = 0x8
    REMOUNT = 0x20
    BIND = 0x1000
    RECURSIVE = 0x4000
    PRIVATE = 0x40000


def mount(
    source: str | Path,
    target: str | Path,
    kind: str = "",
    flags: MountFlag = MountFlag.NONE,
    *,
    data: str = "",
) -> None:
    """Mount `source` on `target`; `data` holds the options of the filesystem itself."""
    arguments = (str(source).encode(), str(target).encode(), kind.encode() or None)
    result = _LIBC.mount(*arguments, ctypes.c_ulong(flags), data.encode() or None)
    _check_syscall(result, f"mount {kind or source} on {target}")


def mount_overlay(target: str | Path, lower: str, layers: Path) -> None:
    """Mount an overlay of the folders `lower` and, written to, ``upper`` of folder `layers`."""
    options = f"lowerdir={lower},upperdir={layers}/upper,workdir={layers}/work"
    mount("overlay", target, "overlay", data=options)


def unmount(target: str | Path) -> None:
    """Detach the mount on `target` at once; what still uses it keeps it until it ends."""
    _check_syscall(_LIBC.umount2(str(target).encode(), _MNT_DETACH), f"unmount {target}")


def unshare(namespaces: Namespace) -> None:
    """Move this process (its children, for PID) into new namespaces."""
    _check_syscall(_LIBC.unshare(ctypes.c_int(namespaces)), f"unshare {namespaces!r}")


def enter_namespace(path: str | Path, namespace: Namespace) -> None:
    """Move this process into the namespace that file `path` stands for."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check_syscall(_LIBC.setns(handle, ctypes.c_int(namespace)), f"setns {path}")
    finally:
        os.close(handle)


def pivot_root(root: str | Path) -> None:
    """Make `root`, a mount, the root of this mount namespace and forget the old one."""
    os.chdir(root)
    _check_syscall(_LIBC.pivot_root(b".", b"."), f"pivot_root {root}")
    unmount(".")  # the old root was stacked on the new one: pivot_root(2), "."
    os.chdir("/")


def set_name(name: str) -> None:
    """Set the name of this process as `ps` shows it, at most 15 bytes."""
    _check_syscall(_LIBC.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0), "prctl PR_SET_NAME")


def _check_syscall(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
