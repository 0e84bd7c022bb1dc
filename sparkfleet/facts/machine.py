"""The machine: release, memory, GPU, disk, limits and listening ports."""

from __future__ import annotations

import contextlib
import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address
from itertools import islice

from sparkfleet.facts.readings import MAX_ENTRIES, Readings
from sparkfleet.values import parse_digits

KIB = 1024
LISTENING = re.compile(r"^([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4}) (\d+)(?: (\S+))?$", re.MULTILINE)
HOLDER = re.compile(r"^(\d+) (\d{1,20}) (.*)$", re.MULTILINE)
UNIFIED = ("n/a", "not supported", "")  # after the brackets are off


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """``/proc/meminfo``, in bytes; a Spark shows 121.6 to 121.7 GiB of its 128 GB."""

    total: int
    free: int
    available: int
    cached: int = 0
    swap_total: int = 0
    swap_free: int = 0
    cma_total: int | None = None
    cma_free: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A line of `nvidia-smi`; `memory` and `used`, in bytes, are None where memory is unified."""

    name: str
    uuid: str = ""
    driver: str = ""
    capability: str = ""
    memory: int | None = None
    used: int | None = None
    clock: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process that holds GPU memory, bytes."""

    pid: int
    name: str
    memory: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """``/etc/dgx-release`` and ``/etc/os-release``; `version` is the last OTA update that ran."""

    name: str = ""
    platform: str = ""
    version: str = ""
    os: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The disk of the weights folder; `folder` is its nearest part that exists, sizes in bytes."""

    folder: str
    total: int
    available: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A listening TCP socket; its process shows only where it is this user's or we are root.

    `inode` is the number of the socket, the same in all containers of the host.
    """

    address: IPv4Address | IPv6Address
    port: int
    pid: int | None = None
    name: str | None = None
    user: str = ""
    inode: str = ""

    @property
    def holder(self) -> str:
        """The process that holds it, as far as that is visible."""
        whose = f" of user {self.user}" if self.user else ""
        return f"{self.name} (pid {self.pid}){whose}" if self.pid else f"a process{whose}"


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """The system and this login: sizes in bytes, `memlock` None where unlimited; `clock` s."""

    kernel: str = ""
    architecture: str = ""
    command_line: str = ""
    product: str = ""
    machine_id: str = ""
    python: str = ""
    user: str = ""
    home: str = ""
    page_size: int | None = None
    memlock: int | None = None
    clock: float = 0.0


def parse_assignments(text: str) -> Mapping[str, str]:
    """Parse ``KEY="value"`` lines; the last one wins, since an update appends its own block."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip().strip("\"'") for key, _, value in pairs}


def parse_release(readings: Readings) -> Release:
    """Return what the release files say; empty on systems other than DGX OS."""
    dgx = parse_assignments(readings.text("/etc/dgx-release"))
    return Release(
        name=dgx.get("DGX_NAME", ""),
        platform=dgx.get("DGX_PLATFORM", ""),
        version=dgx.get("DGX_OTA_VERSION") or dgx.get("DGX_SWBUILD_VERSION", ""),
        os=parse_assignments(readings.text("/etc/os-release")).get("PRETTY_NAME", ""),
    )


def parse_system(readings: Readings) -> System:
    """Return the system; of `uname` the words that all its forms share: release and machine."""
    uname = [word for word in readings.text("uname").split() if word != "GNU/Linux"]
    user, _, home = readings.text("user").partition(" ")
    memlock = readings.number("memlock")
    clock = re.match(r"[\d.]+\d", readings.text("clock"), re.ASCII)
    return System(
        kernel=uname[2] if len(uname) > 2 else "",
        architecture=uname[-1] if len(uname) > 2 else "",
        command_line=readings.text("/proc/cmdline"),
        product=readings.text("/sys/class/dmi/id/product_name"),
        machine_id=readings.text("/etc/machine-id"),
        python=readings.text("python"),
        user=user,
        home=home,
        page_size=readings.number("page_size"),
        memlock=memlock if memlock is not None and memlock >= 0 else None,
        clock=float(clock[0]) if clock else 0.0,
    )


def parse_memory(readings: Readings) -> Memory | None:
    """Return the memory, or None where ``/proc/meminfo`` is unreadable."""
    rows: dict[str, int] = {}
    for line in readings.text("/proc/meminfo").splitlines():
        key, _, value = line.partition(":")
        fields = value.split()
        size = parse_digits(fields[0]) if fields else None
        if size is not None:
            rows[key.strip()] = size * KIB
    if not {"MemTotal", "MemFree", "MemAvailable"} <= rows.keys():
        return None
    return Memory(
        total=rows["MemTotal"],
        free=rows["MemFree"],
        available=rows["MemAvailable"],
        cached=rows.get("Cached", 0),
        swap_total=rows.get("SwapTotal", 0),
        swap_free=rows.get("SwapFree", 0),
        cma_total=rows.get("CmaTotal"),
        cma_free=rows.get("CmaFree"),
    )


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Parse ``nvidia-smi --query-gpu=... --format=csv`` by its header line.

    ``No devices were found`` comes with status 0 or 6 and has no header: no GPU.
    """
    return tuple(
        Gpu(
            name=row.get("name", ""),
            uuid=row.get("uuid", ""),
            driver=row.get("driver_version", ""),
            capability=row.get("compute_cap", ""),
            memory=_parse_mebibytes(row.get("memory.total", "")),
            used=_parse_mebibytes(row.get("memory.used", "")),
            clock=_parse_amount(row.get("clocks.sm") or row.get("clocks.current.sm", "")),
        )
        for row in parse_csv_table(text)
        if row.get("name")
    )


def parse_gpu_processes(text: str) -> tuple[GpuProcess, ...]:
    """Parse ``nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv``."""
    return tuple(
        GpuProcess(
            pid=pid,
            name=row.get("process_name", ""),
            memory=_parse_mebibytes(row.get("used_gpu_memory") or row.get("used_memory", "")),
        )
        for row in parse_csv_table(text)
        if (pid := parse_digits(row.get("pid", ""))) is not None
    )


def parse_csv_table(text: str) -> Iterator[Mapping[str, str]]:
    """Yield rows of nvidia-smi's CSV by column name, without the unit in the header.

    `MAX_ENTRIES` at most, and none after a cell that is too long.
    """
    lines = text.strip().splitlines()[:MAX_ENTRIES]
    rows = csv.reader(lines, skipinitialspace=True)
    with contextlib.suppress(csv.Error):
        columns = [cell.partition(" [")[0].strip() for cell in next(rows, [])]
        for row in rows:
            yield dict(zip(columns, (cell.strip() for cell in row), strict=False))


def _parse_amount(cell: str) -> int | None:
    """Return the number of a cell; None for every way to say that there is none."""
    bare = cell.strip().strip("[]").lower()
    digits = bare.split(" ")[0]
    return None if bare in UNIFIED else parse_digits(digits)


def _parse_mebibytes(cell: str) -> int | None:
    amount = _parse_amount(cell)
    return None if amount is None else amount * KIB * KIB


def parse_disk(text: str) -> Disk | None:
    """Parse ``total available folder``."""
    match = re.fullmatch(r"([0-9]{1,20}) ([0-9]{1,20}) (.+)", text)
    return match and Disk(folder=match[3], total=int(match[1]), available=int(match[2]))


def parse_listeners(readings: Readings) -> tuple[Listener, ...]:
    """Return the listening TCP sockets, with their holders where the host showed them.

    Of each table `MAX_ENTRIES` at most.
    """
    holders = islice(HOLDER.finditer(readings.text("listeners")), MAX_ENTRIES)
    held = {found[1]: (int(found[2]), found[3]) for found in holders}
    return tuple(
        replace(
            _build_listener(found[1], found[2], held.get(found[3]), found[4] or ""), inode=found[3]
        )
        for source in ("/proc/net/tcp", "/proc/net/tcp6")
        for found in islice(LISTENING.finditer(readings.text(source)), MAX_ENTRIES)
    )


def _build_listener(address: str, port: str, holder: tuple[int, str] | None, user: str) -> Listener:
    words = [bytes.fromhex(address[at : at + 8])[::-1] for at in range(0, len(address), 8)]
    packed = b"".join(words)  # 32-bit words in host order
    pid, name = holder or (None, None)
    return Listener(
        address=IPv4Address(packed) if len(packed) == 4 else IPv6Address(packed),
        port=int(port, 16),
        pid=pid,
        name=name,
        user=user,
    )
