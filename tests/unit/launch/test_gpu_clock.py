"""The GPU's clock under load; the driver is a stand-in, compiled here, that only counts."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from sparkfleet.launch.preflight import gpu_clock
from sparkfleet.model import Host, Severity
from sparkfleet.remote.local import LocalConnection

DRIVER = """\
#include <stddef.h>
int cuInit(unsigned flags) { return %(status)d; }
int cuDeviceGet(int *device, int number) { return *device = number; }
int cuCtxCreate_v2(void **context, unsigned flags, int device) { return 0; }
int cuCtxDestroy_v2(void *context) { return 0; }
int cuMemAlloc_v2(unsigned long long *memory, size_t size) { return *memory = 0; }
int cuMemsetD32_v2(unsigned long long memory, unsigned value, size_t count) { return 0; }
int cuCtxSynchronize(void) { return 0; }
"""


@pytest.fixture
def link() -> LocalConnection:
    return LocalConnection(Host(name="here"))


def _host(folder: Path, monkeypatch: pytest.MonkeyPatch, *, clocks: str, status: int = 0) -> None:
    """Put a stand-in for the driver and for nvidia-smi where programs look first."""
    source = folder / "cuda.c"
    tool = folder / "nvidia-smi"
    source.write_text(DRIVER % {"status": status})
    library = folder / "libcuda.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    tool.write_text(f"#!/bin/bash\n{clocks}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    monkeypatch.setattr(gpu_clock, "SECONDS", 0.5)


needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="builds a stand-in driver")


@needs_compiler
def test_the_highest_clock_under_load_counts(
    link: LocalConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = (
        f"echo x >>{tmp_path}/asked; [ $(wc -l <{tmp_path}/asked) = 1 ] && echo 208 || echo 2400"
    )
    _host(tmp_path, monkeypatch, clocks=counter)
    verdict = gpu_clock.check_gpu_clock("here", gpu_clock.measure_gpu_clock(link))
    assert (verdict.severity, verdict.seen) == (Severity.OK, "2400 MHz")


@needs_compiler
def test_the_load_ends_once_the_clock_is_high_and_rises_no_further(
    link: LocalConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks = f"echo x >>{tmp_path}/asked; sed -n $(wc -l <{tmp_path}/asked)p {tmp_path}/clocks"
    (tmp_path / "clocks").write_text("208\n1500\n2400\n2400\n9999\n")
    _host(tmp_path, monkeypatch, clocks=clocks)
    monkeypatch.setattr(gpu_clock, "SECONDS", 600)
    assert gpu_clock.measure_gpu_clock(link).clock == 2400
    assert len((tmp_path / "asked").read_text().split()) == 4


@needs_compiler
def test_a_clock_that_stays_low_is_warned_about(
    link: LocalConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _host(tmp_path, monkeypatch, clocks="echo 851")
    verdict = gpu_clock.check_gpu_clock("here", gpu_clock.measure_gpu_clock(link))
    assert (verdict.severity, verdict.seen) == (Severity.WARNING, "851 MHz")
    assert "unplug it for a minute" in verdict.fix


@needs_compiler
@pytest.mark.parametrize(
    ("clocks", "status", "why"),
    [("echo 2400", 999, "cuInit returned 999"), ("echo '[N/A]'", 0, "invalid literal")],
)
def test_what_cannot_be_measured_is_not_judged(
    link: LocalConnection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    clocks: str,
    status: int,
    why: str,
) -> None:
    _host(tmp_path, monkeypatch, clocks=clocks, status=status)
    verdict = gpu_clock.check_gpu_clock("here", gpu_clock.measure_gpu_clock(link))
    assert verdict.severity is Severity.INFO
    assert why in verdict.seen


def test_a_host_without_the_drivers_library_is_not_judged(link: LocalConnection) -> None:
    if shutil.which("nvidia-smi"):
        pytest.skip("this machine has a driver")
    verdict = gpu_clock.check_gpu_clock("here", gpu_clock.measure_gpu_clock(link))
    assert verdict.severity is Severity.INFO
    assert "libcuda.so.1" in verdict.seen
