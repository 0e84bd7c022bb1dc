"""The GPUs of a machine, as a tree of plain files, and what of them a lab host is shown."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sparkfleet.errors import UsageError
from sparkfleet.lab.engine import base_torch, containers, install, kinds
from sparkfleet.lab.engine.distribution import parse_pins
from sparkfleet.lab.engine.kinds import CPU, GPU
from sparkfleet.lab.host import gpus
from sparkfleet.lab.host.disk import LINKER_FILE, build_common_layer
from sparkfleet.lab.host.gpus import GpuDriver, LabGpu
from sparkfleet.lab.host.sysfs import build_sysfs
from sparkfleet.lab.inventory import format_lab_inventory
from sparkfleet.lab.plan import plan_fleet, plan_shape
from sparkfleet.lab.state import LabState, load_lab_state
from tests.commandline import run_command

BUSES = ("0000:1a:00.0", "0000:9b:00.0")
# As the driver writes them; the names of the fields are those of its open source, nv-procfs.c.
VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n"
PARAMETERS = "ResmanDebugLevel: 4294967295\nModifyDeviceFiles: 1\nDeviceFileMode: 438\n"
INFORMATION = """\
Model: \t\t NVIDIA H200
IRQ:   \t\t 61
GPU UUID: \t GPU-0{minor}
Video BIOS: \t 96.00.aa.00.01
Bus Location: \t {bus}
Device Minor: \t {minor}
"""
PAIR = (
    LabGpu(minor=0, name="NVIDIA H200", uuid="GPU-00", bus=BUSES[0]),
    LabGpu(minor=1, name="NVIDIA H200", uuid="GPU-01", bus=BUSES[1]),
)
DRIVER = GpuDriver(
    version="580.159.04",
    library=Path("/usr/local/nvidia/lib64/libcuda.so.1"),
    program=Path("/usr/local/nvidia/bin/nvidia-smi"),
)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Return the root of a machine with two GPUs, whose files are in the order of their bus."""
    files = {f"dev/{name}": "" for name in (*gpus.CONTROL_FILES, "nvidia0", "nvidia1")}
    files |= {f"{gpus.PROC}/version": VERSION, f"{gpus.PROC}/params": PARAMETERS}
    for minor, bus in enumerate(BUSES):
        information = INFORMATION.format(minor=minor, bus=bus)
        files[f"{gpus.PROC}/gpus/{bus}/information"] = information
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def _add_device(machine: Path, bus: str) -> None:
    folder = machine / "sys/devices/pci0000:00" / bus
    folder.mkdir(parents=True)
    devices = machine / "sys/bus/pci/devices"
    devices.mkdir(parents=True, exist_ok=True)
    (devices / bus).symlink_to(folder)


def test_every_gpu_with_a_device_file_is_found(machine: Path) -> None:
    assert gpus.find_gpus(machine) == PAIR


def test_a_gpu_has_its_place_in_sys(machine: Path) -> None:
    _add_device(machine, BUSES[1])
    first, second = gpus.find_gpus(machine)
    assert (first.device_path, second.device_path) == ("", f"devices/pci0000:00/{BUSES[1]}")


def test_a_gpu_without_a_device_file_does_not_count(machine: Path) -> None:
    (machine / "dev/nvidia0").unlink()
    assert gpus.find_gpus(machine) == PAIR[1:]


def test_without_the_drivers_folder_in_proc_the_device_files_count(machine: Path) -> None:
    (machine / gpus.PROC / "gpus").rename(machine / "elsewhere")
    assert gpus.find_gpus(machine) == (LabGpu(minor=0), LabGpu(minor=1))


def test_a_machine_without_a_gpu_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no NVIDIA GPU on this machine"):
        gpus.find_gpus(tmp_path)


def test_a_machine_whose_driver_is_half_loaded_is_refused(machine: Path) -> None:
    (machine / "dev/nvidia-uvm").unlink()
    with pytest.raises(UsageError, match="/dev/nvidia-uvm") as caught:
        gpus.find_gpus(machine)
    assert caught.value.hint == "create them as root: nvidia-modprobe -c 0 -u"


def test_there_are_as_many_hosts_as_gpus_or_fewer() -> None:
    assert gpus.choose_gpus(PAIR, None) == PAIR
    assert gpus.choose_gpus(PAIR, 1) == PAIR[:1]
    with pytest.raises(UsageError, match="3 hosts need 3 GPUs, and this machine has 2") as caught:
        gpus.choose_gpus(PAIR, 3)
    assert caught.value.hint == "--hosts 2, or --share, so that hosts share a GPU"


def test_hosts_may_share_gpus() -> None:
    first, second = PAIR
    assert gpus.choose_gpus(PAIR[:1], None, share=True) == (first, first)
    assert gpus.choose_gpus(PAIR, 3, share=True) == (first, second, first)
    assert gpus.choose_gpus(PAIR, None, share=True) == PAIR


def test_a_host_gets_the_files_of_its_own_gpu_only() -> None:
    first, second = (gpus.list_device_files(gpu) for gpu in PAIR)
    assert first == ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia0")
    assert "nvidia0" not in second


def test_proc_has_only_the_gpu_of_the_host_and_no_device_files_are_made(machine: Path) -> None:
    files = gpus.build_proc_files(PAIR[1], machine)
    assert files["version"] == VERSION
    assert "ModifyDeviceFiles: 0\n" in files["params"]
    assert [path for path in files if path.startswith("gpus/")] == [f"gpus/{BUSES[1]}/information"]


def test_the_driver_is_found_where_it_is(machine: Path) -> None:
    for path in ("usr/local/nvidia/lib64/libcuda.so.1", "usr/local/nvidia/bin/nvidia-smi"):
        (machine / path).parent.mkdir(parents=True)
        (machine / path).touch()
    found = gpus.read_driver(machine, path="")
    assert found.version == "580.159.04"
    assert found.library == machine / "usr/local/nvidia/lib64/libcuda.so.1"
    assert found.program == machine / "usr/local/nvidia/bin/nvidia-smi"


def test_what_is_not_there_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    nothing = GpuDriver(version="", library=None, program=None)
    assert gpus.read_driver(tmp_path, path="") == nothing
    assert gpus.find_container_runtime(tmp_path) is None


def test_only_mounts_of_the_driver_are_shown() -> None:
    points = ("/", "/proc/driver/nvidia", "/usr/local/nvidia", "/usr/bin/nvidia-smi", "/usr/share",
              "/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04", "/dev/nvidia0")  # fmt: skip
    lines = (f"22 1 8:1 / {point} rw,relatime - ext4 /dev/sda1 rw" for point in points)
    assert gpus.list_driver_mounts("\n".join(lines)) == [
        Path("/usr/bin/nvidia-smi"),
        Path("/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04"),
        Path("/usr/local/nvidia"),
    ]


@pytest.mark.parametrize("stand_in", [False, True])
def test_a_plan_with_gpus_outlives_its_state_file(*, stand_in: bool) -> None:
    fleet = plan_fleet(2, gpus=PAIR, stand_in=stand_in)
    assert plan_shape(json.loads(json.dumps(fleet.shape))) == fleet
    assert [host.gpu for host in fleet.hosts] == list(PAIR)
    assert fleet != plan_fleet(2)


def test_a_state_file_of_another_version_counts_as_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "fleet.json"
    monkeypatch.setattr("sparkfleet.lab.state.STATE", file)
    LabState(plan=plan_fleet(2, gpus=PAIR), running={}).save()
    assert load_lab_state() is not None
    state = json.loads(file.read_text())
    state["shape"]["colour"] = "green"
    file.write_text(json.dumps(state))
    assert load_lab_state() is None


def test_sys_shows_the_real_gpu_unless_a_stand_in_is_wanted() -> None:
    placed = tuple(replace(gpu, device_path=f"devices/pci0000:00/{gpu.bus}") for gpu in PAIR)
    real = build_sysfs(plan_fleet(2, gpus=placed).hosts[1])
    link = f"../../../devices/pci0000:00/{BUSES[1]}"
    assert real.links[f"bus/pci/devices/{BUSES[1]}"] == link
    assert f"bus/pci/devices/{BUSES[0]}" not in real.links
    assert "module/nvidia/version" not in real.files
    assert build_sysfs(plan_fleet(2, gpus=placed, stand_in=True).hosts[1]) == build_sysfs(
        plan_fleet(2).hosts[1]
    )


def test_hosts_have_the_real_nvidia_smi_unless_a_stand_in_is_wanted() -> None:
    real = build_common_layer(driver=DRIVER)
    assert "usr/bin/nvidia-smi" not in real.files
    assert real.links["usr/bin/nvidia-smi"] == "/usr/local/nvidia/bin/nvidia-smi"
    assert real.files[LINKER_FILE] == "/usr/local/nvidia/lib64\n"
    like_gb10 = build_common_layer(driver=DRIVER, stand_in=True)
    assert like_gb10.files["usr/bin/nvidia-smi"].startswith("#!/bin/bash\n")
    assert like_gb10.files[LINKER_FILE] == "/usr/local/nvidia/lib64\n"
    assert LINKER_FILE not in build_common_layer().files


def test_an_nvidia_smi_in_its_usual_place_shows_through() -> None:
    tree = build_common_layer(driver=replace(DRIVER, program=gpus.PROGRAM_PATH))
    assert "usr/bin/nvidia-smi" not in {*tree.files, *tree.links}


def test_the_inventory_sends_nccl_over_sockets_and_says_why() -> None:
    text = format_lab_inventory(plan_fleet(2, gpus=PAIR), Path("/venv"), Path("/model"))
    assert "NCCL_NET: Socket           # the RDMA devices are stand-ins" in text
    assert "NCCL_NET" not in format_lab_inventory(plan_fleet(2), Path("/venv"), Path("/model"))


@pytest.mark.parametrize("option", ["--stand-in", "--share"])
def test_options_for_gpus_need_gpus(option: str) -> None:
    done = run_command("lab.up", option)
    assert done.returncode == 5
    assert f"{option} needs --gpus" in done.stderr


def test_the_lock_of_the_gpu_engine_pins_cuda_and_the_tested_releases() -> None:
    pinned = dict(parse_pins(GPU.read_lock()))
    assert (pinned["vllm"], pinned["ray"], pinned["torch"]) == ("0.20.2", "2.55.0", "2.11.0")
    assert pinned["nvidia-cuda-runtime"].startswith(f"{base_torch.CUDA}.")
    assert GPU.list_marked("optional") | GPU.list_marked("shared") <= pinned.keys()
    assert "vllm" not in GPU.list_marked("optional")
    assert CPU.venv_path() != GPU.venv_path()


def test_an_engine_on_top_of_a_torch_leaves_out_its_packages() -> None:
    base = base_torch.BaseTorch(
        python=Path("/py"),
        site=Path("/site"),
        prefix=Path("/opt/torch"),
        packages={"torch": "2.11.0+cu130", "numpy": "9", "rich": "15.0.0", "ray": "1"},
        bound=frozenset({"torch", "sympy"}),
    )
    pins = [("torch", "2.11.0"), ("sympy", "1"), ("numpy", "2"), ("rich", "15.0.0"), ("ray", "2")]
    assert base.without_provided(pins, frozenset({"numpy"})) == [("ray", "2")]
    assert base.without_provided(pins, frozenset()) == [("numpy", "2"), ("ray", "2")]


def _make_torch(folder: Path, cuda: str) -> Path:
    """Make a Python that has a torch of a few lines, and return it."""
    site = folder / "site"
    (site / "torch").mkdir(parents=True)
    (site / "torch/__init__.py").touch()
    (site / "torch/version.py").write_text(f"cuda: Optional[str] = {cuda}\n")
    needs = {"torch-2.11.0+cu130": "Requires-Dist: sympy>1; x == 'y'\n", "sympy-7": ""}
    for name, line in needs.items():
        (site / f"{name}.dist-info").mkdir()
        text = "Name: {}\nVersion: {}\n".format(*name.split("-"))
        (site / f"{name}.dist-info/METADATA").write_text(text + line)
    program = folder / "python"
    program.write_text(
        f"#!{sys.executable} -I\nimport sys\nsys.path.insert(0, {str(site)!r})\nexec(sys.argv[3])\n"
    )
    program.chmod(0o755)
    return program


def test_containers_are_refused_on_hosts_with_real_gpus() -> None:
    containers.check_containers(plan_fleet(2))
    with pytest.raises(UsageError, match="passes no GPU"):
        containers.check_containers(plan_fleet(2, gpus=PAIR))


PINS = [("torch", "2.11.0"), ("sympy", "1.14.0"), ("vllm", "0.20.2")]


def test_a_torch_that_is_there_is_looked_at(tmp_path: Path) -> None:
    base = base_torch.find_base_torch(_make_torch(tmp_path, "'13.0'"), PINS)
    assert base.site == tmp_path / "site"
    assert base.bound == {"torch", "sympy"}
    assert base.without_provided(PINS, frozenset()) == [("vllm", "0.20.2")]


def test_a_torch_for_another_cuda_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"torch 2\.11\.0\+cu130 for CUDA 12\.8"):
        base_torch.find_base_torch(_make_torch(tmp_path, "'12.8'"), PINS)


def test_a_torch_for_the_cpu_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="for the CPU"):
        base_torch.find_base_torch(_make_torch(tmp_path, "None"), PINS)


def test_a_python_without_torch_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!{sys.executable} -I\nimport sys\nsys.path = sys.path[:0]\nsys.exit(1)\n")
    program.chmod(0o755)
    with pytest.raises(UsageError, match="it failed"):
        base_torch.find_base_torch(program, PINS)
    with pytest.raises(UsageError, match="No such file"):
        base_torch.find_base_torch(tmp_path / "nothing", PINS)


def test_a_folder_of_wheels_decides_what_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = "small-thing==1.0\nfast_kernels==2  # optional: kernels\nmore-kernels==3  # optional\n"
    monkeypatch.setattr(kinds.EngineKind, "read_lock", lambda _: lock)
    (tmp_path / "more_kernels-3-py3-none-any.whl").touch()
    said: list[str] = []
    chosen = install._select_pins(GPU, said.append, base=None, wheels=str(tmp_path))
    assert [name for name, _ in chosen] == ["small-thing", "more-kernels"]
    assert said == [f"left out, as {tmp_path} does not have them: fast_kernels"]
    assert len(install._select_pins(GPU, said.append, base=None, wheels=None)) == 3


def test_the_folders_of_a_torch_in_use_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "CACHE", tmp_path)
    for name, text in (("a", '{"torch": "/opt/torch"}'), ("b", "{}"), ("c", "broken")):
        (tmp_path / f"engine-{name}").mkdir()
        (tmp_path / f"engine-{name}" / install.MARKER).write_text(text)
    assert install.find_base_folders() == [Path("/opt/torch")]
