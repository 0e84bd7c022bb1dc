"""PID 1 of a lab host: starts sshd, reaps orphans, keeps /proc and /sys up to date.

It never returns. When it dies, the kernel ends every process of the host, like a power loss.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from pathlib import Path

from sparkfleet.lab.host.disk import merge_meminfo
from sparkfleet.lab.host.driver import Driver
from sparkfleet.lab.paths import (
    CMA,
    DOCKER_ENABLED,
    KERNEL_MEMINFO,
    MEMINFO,
    NETWORKMANAGER_ENABLED,
    REFRESH_DONE,
    REFRESH_REQUEST,
    SCARCE,
    UNITS_ENABLED,
)
from sparkfleet.lab.plan import HostPlan

SSHD = ("/usr/sbin/sshd", "-D", "-E", "/run/sshd.log")
NETPLAN = ("/usr/sbin/netplan", "apply")
DOCKER = ("/usr/bin/lab-docker",)
NETWORKMANAGER = ("/usr/bin/lab-networkmanager",)
UNITS = ("/usr/bin/systemctl", "lab-boot")  # starts the units that are enabled
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
}
INTERVAL = 2.0  # seconds between two looks at the machine's memory
LINK_GROUPS = 0x1 | 0x10  # RTMGRP_LINK, RTMGRP_IPV4_IFADDR


def run_init(host: HostPlan, *, ready: int) -> None:
    """Start the host's services, close the pipe `ready`, then live until killed."""
    news = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    news.bind((0, LINK_GROUPS))
    wake, _woken = _catch_signals()  # both ends must live
    os.environ.clear()
    os.environ.update(ENVIRONMENT)
    Path("/run/sshd").mkdir(mode=0o755)
    if NETWORKMANAGER_ENABLED.exists():
        subprocess.run(NETWORKMANAGER, stdin=subprocess.DEVNULL, check=False)
    elif host.bare:  # else the lab has set the addresses
        subprocess.run(NETPLAN, stdin=subprocess.DEVNULL, check=False)
    os.posix_spawn(SSHD[0], SSHD, os.environ)
    if DOCKER_ENABLED.exists():
        os.posix_spawn(DOCKER[0], DOCKER, os.environ)
    if UNITS_ENABLED.exists():
        os.posix_spawn(UNITS[0], UNITS, os.environ)
    driver = Driver(host)
    os.close(ready)
    while True:
        try:
            _handle_events(driver, [news, wake])
        except Exception:  # noqa: BLE001 - a host outlives what a fault does to its files
            traceback.print_exc(file=sys.stderr)


def _handle_events(driver: Driver, sources: list[socket.socket]) -> None:
    """Wait for news of links, a signal or the next look at memory, and act on it."""
    select.select(sources, [], [], driver.interval or INTERVAL)
    news, signals = map(_drain_socket, sources)
    _reap_children()
    _refresh_memory()
    driver.count_losses()
    if news or signal.SIGHUP in signals:  # the end of a child says nothing about a link
        token = REFRESH_REQUEST.read_text() if REFRESH_REQUEST.exists() else ""
        driver.follow()
        REFRESH_DONE.write_text(token)


def _reap_children() -> None:
    """Collect every child and orphan that has ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _refresh_memory() -> None:
    """Write /proc/meminfo anew: the machine's numbers, a Spark's Cma lines, a fault's.

    In place, for it is bound over the kernel's file; the lines have fixed widths, so no
    reader sees a half-written one.
    """
    overrides = CMA.read_text() + (SCARCE.read_text() if SCARCE.exists() else "")
    data = merge_meminfo(KERNEL_MEMINFO.read_text(), overrides).encode()
    handle = os.open(MEMINFO, os.O_RDWR)
    try:
        os.pwrite(handle, data, 0)
        os.ftruncate(handle, len(data))
    finally:
        os.close(handle)


def _catch_signals() -> tuple[socket.socket, socket.socket]:
    """Return the socket that SIGCHLD and SIGHUP make readable, and its other end."""
    wake, woken = socket.socketpair()
    for end in (wake, woken):
        end.settimeout(0)
    signal.set_wakeup_fd(woken.fileno())
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # which the kernel keeps from a PID 1
    for number in (signal.SIGCHLD, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    return wake, woken


def _drain_socket(source: socket.socket) -> bytes:
    """Return all that waits in a socket; some byte where the kernel lost news (ENOBUFS)."""
    waiting = b""
    try:
        while more := source.recv(65536, socket.MSG_DONTWAIT):
            waiting += more
    except BlockingIOError:
        return waiting
    except OSError:
        return waiting + b"?"
    return waiting
