"""The real NVIDIA GPUs of this machine, and the files by which a lab host sees one.

All is read below a folder `root`, so that a tree of plain files can stand for a machine. A host
gets what a container gets that is allowed one GPU: the control files of the driver, the file of its
own GPU, and a /proc/driver/nvidia with this GPU only. NVIDIA's libraries list no GPU whose
file is missing, and make none where `ModifyDeviceFiles` is 0, as in containers of NVIDIA's toolkit
(libnvidia-container, src/nvc_mount.c, `mount_procfs`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sparkfleet.errors import UsageError

MACHINE = Path("/")
UNNAMED = "NVIDIA GPU"
PROC = Path("proc/driver/nvidia")
CONTROL_FILES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
PARAMETERS = "params"
MAKES_FILES = re.compile(r"^(ModifyDeviceFiles: )\d+$", re.MULTILINE)
KEPT = (PARAMETERS, "registry", "version")  # of /proc/driver/nvidia, as they are but for the above
LIBRARY = "libcuda.so.1"
LIBRARY_FOLDERS = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/local/nvidia/lib64",
)
PROGRAM = "nvidia-smi"
RUNTIME = "nvidia-container-runtime"
PROGRAM_PATH = Path("/usr/bin/nvidia-smi")  # where a host has it, whatever it is
PROGRAM_FOLDERS = ("usr/bin", "usr/local/bin", "usr/local/nvidia/bin")
SHOWN = ("/usr/", "/opt/", "/lib/", "/lib64/")  # where mounts with a part of the driver may lie
OF_DRIVER = re.compile(r"nvidia|cuda", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabGpu:
    """A GPU of this machine: its device file is /dev/nvidia with `minor`.

    `bus` is its PCI address, and `device_path` its folder below /sys. All but `minor` is unknown
    where the driver's folder in /proc does not list the GPU.
    """

    minor: int
    name: str = UNNAMED
    uuid: str = ""
    bus: str = ""
    device_path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDriver:
    """NVIDIA's driver: its version, libcuda and nvidia-smi; "" and None for what was not found."""

    version: str
    library: Path | None
    program: Path | None


def find_gpus(root: Path = MACHINE) -> tuple[LabGpu, ...]:
    """Return the GPUs that have a device file, in their order; raises UsageError without any."""
    by_minor = {gpu.minor: gpu for gpu in _list_driver_gpus(root / PROC / "gpus")}
    names = (re.fullmatch(r"nvidia(\d+)", path.name) for path in (root / "dev").glob("nvidia*"))
    minors = sorted(int(match[1]) for match in names if match)
    if not minors:
        raise UsageError(
            "--gpus: no NVIDIA GPU on this machine: /dev/nvidia0 not found",
            hint="leave out --gpus to compute on the CPU; if this machine has a GPU, "
            "sudo nvidia-smi -L creates its device file",
        )
    missing = [name for name in CONTROL_FILES[:2] if not (root / "dev" / name).exists()]
    if missing:
        raise UsageError(
            f"--gpus: not found: {', '.join(f'/dev/{name}' for name in missing)}",
            hint="create them as root: nvidia-modprobe -c 0 -u",
        )
    return tuple(by_minor.get(minor, LabGpu(minor=minor)) for minor in minors)


def choose_gpus(
    found: tuple[LabGpu, ...], hosts: int | None, *, share: bool = False
) -> tuple[LabGpu, ...]:
    """Return a GPU for each of `hosts` hosts, or all for None; raises UsageError for too many.

    With `share` the hosts take turns: two are the least, and several may have the same GPU.
    """
    if share:
        wanted = max(2, len(found)) if hosts is None else hosts
        return tuple(found[number % len(found)] for number in range(wanted))
    wanted = len(found) if hosts is None else hosts
    if wanted > len(found):
        raise UsageError(
            f"--gpus: {wanted} hosts need {wanted} GPUs, and this machine has {len(found)}",
            hint=f"--hosts {len(found)}, or --share, so that hosts share a GPU",
        )
    return found[:wanted]


def read_driver(root: Path = MACHINE, path: str | None = None) -> GpuDriver:
    """Return NVIDIA's driver; `path` is where programs are looked for first, as in PATH."""
    version = re.search(r"\d+\.\d+(?:\.\d+)?", _read_text(root / PROC / "version"))
    programs = _split_path(os.environ.get("PATH", "") if path is None else path)
    libraries = _split_path(os.environ.get("LD_LIBRARY_PATH", ""))
    return GpuDriver(
        version=version[0] if version else "",
        library=_find_file(LIBRARY, [root / name for name in LIBRARY_FOLDERS], libraries),
        program=_find_file(PROGRAM, [root / name for name in PROGRAM_FOLDERS], programs),
    )


def _split_path(path: str) -> list[Path]:
    return [Path(folder) for folder in path.split(":") if folder]


def _find_file(name: str, usual: list[Path], more: list[Path]) -> Path | None:
    return next((folder / name for folder in (*usual, *more) if (folder / name).is_file()), None)


def list_device_files(gpu: LabGpu) -> tuple[str, ...]:
    """Return the names below /dev of the device files that a host with this GPU gets."""
    return (*CONTROL_FILES, f"nvidia{gpu.minor}")


def build_proc_files(gpu: LabGpu, root: Path = MACHINE) -> dict[str, str]:
    """Return /proc/driver/nvidia of a host with this GPU: the content of each file by its path."""
    files = {name: text for name in KEPT if (text := _read_text(root / PROC / name))}
    if PARAMETERS in files:
        files[PARAMETERS] = MAKES_FILES.sub(r"\g<1>0", files[PARAMETERS])
    if gpu.bus:
        folder = root / PROC / "gpus" / gpu.bus
        for path in sorted(folder.iterdir()):
            files[f"gpus/{gpu.bus}/{path.name}"] = _read_text(path)
    return files


def find_container_runtime(root: Path = MACHINE) -> Path | None:
    """Return NVIDIA's container runtime of this machine, None where it is not installed."""
    return _find_file(RUNTIME, [root / name for name in PROGRAM_FOLDERS], [])


def list_driver_mounts(mountinfo: str) -> list[Path]:
    """Return where parts of the driver are mounted, from /proc/self/mountinfo, parents first.

    A container of NVIDIA's toolkit has a mount for each of its files; others have one for a folder.
    """
    points = (line.split()[4] for line in mountinfo.splitlines())
    ours = {point for point in points if point.startswith(SHOWN) and OF_DRIVER.search(point)}
    return [Path(point) for point in sorted(ours)]


def _list_driver_gpus(folder: Path) -> Iterator[LabGpu]:
    """Yield the GPUs of /proc/driver/nvidia/gpus: a folder each, named after its PCI address."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        values = _parse_information(_read_text(path / "information"))
        if values.get("Device Minor", "").isdecimal():
            yield LabGpu(
                minor=int(values["Device Minor"]),
                name=values.get("Model", UNNAMED),
                uuid=values.get("GPU UUID", ""),
                bus=path.name,
                device_path=_find_device(path.name, folder.parents[3]),
            )


def _find_device(bus: str, root: Path) -> str:
    """Return the folder of a PCI device below /sys, "" if there is none."""
    system = (root / "sys").resolve()
    link = system / "bus/pci/devices" / bus
    return str(link.resolve().relative_to(system)) if link.exists() else ""


def _parse_information(text: str) -> Mapping[str, str]:
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _read_text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
