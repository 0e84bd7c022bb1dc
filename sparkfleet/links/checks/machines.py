"""Machines: equal firmware, kernel and driver; kernels and packages that are known to be bad."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sparkfleet.facts import HostFacts
from sparkfleet.links.evidence import Check, Evidence
from sparkfleet.model import Verdict
from sparkfleet.verdicts import warning

KHO_KERNELS = re.compile(r"7\.0\.0-(31|1019)\b")  # known to lose the CMA without kho=off


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultyDriver:
    """Versions of NVIDIA's driver with a known fault, the report and its date."""

    versions: re.Pattern[str]
    fault: str
    source: str


FAULTY_DRIVERS = (
    FaultyDriver(
        versions=re.compile(r"590\."),
        fault="deadlocks with CUDA graphs",
        source="eugr/spark-vllm-docker, README of 2026-03-12",
    ),
    FaultyDriver(
        versions=re.compile(r"610\.43\."),
        fault="uses about 4 GiB more memory, and CUDA sometimes fails to start",
        source="MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#114, 2026-09-04",
    ),
)
GOOD_DRIVER = "580"  # the branch of DGX OS
UPDATER = "/var/lib/dpkg/info/mlnx-fw-updater.list"


def check_equal_versions(evidence: Evidence) -> Iterator[Verdict]:
    """Expect the head's firmware, kernel, page size, driver and DGX OS on every host."""
    head, *rest = evidence.hosts
    reference = _collect_versions(evidence, head)
    for host in rest:
        for name, (actual, source) in _collect_versions(evidence, host).items():
            expected = reference[name][0]
            if actual and expected and actual != expected:
                yield warning(
                    f"host.{name}",
                    host,
                    name,
                    expected=f"{expected}, as on {head}",
                    seen=actual,
                    source=source,
                    fix="update by hand so that all nodes are equal; sparkfleet "
                    "installs and flashes nothing",
                )


def _collect_versions(evidence: Evidence, host: str) -> dict[str, tuple[str, str]]:
    facts = evidence.facts[host]
    firmware = sorted({hca.firmware for hca in evidence.fabric.hcas(host)})
    return {
        "firmware": (", ".join(firmware), "/sys/class/infiniband/*/fw_ver"),
        "kernel": (facts.system.kernel, "uname"),
        "page_size": (str(facts.system.page_size or ""), "getpagesize"),
        "driver": (facts.driver, "nvidia-smi"),
        "release": (facts.release.version, "/etc/dgx-release"),
    }


def check_kernel_cma(evidence: Evidence) -> Iterator[Verdict]:
    """Warn of kernels that lose the contiguous memory (CMA) that RDMA registers."""
    for host in evidence.hosts:
        facts = evidence.facts[host]
        if (
            KHO_KERNELS.match(facts.system.kernel)
            and "kho=off" not in facts.system.command_line.split()
        ):
            yield _report_kernel(
                facts, f"{facts.system.kernel} without kho=off", "uname, /proc/cmdline"
            )
        memory = facts.memory
        if memory and (memory.cma_total == 0 or (memory.cma_free or 0) > (memory.cma_total or 0)):
            cma = f"CmaTotal {memory.cma_total}, CmaFree {memory.cma_free} bytes"
            yield _report_kernel(facts, cma, "/proc/meminfo")


def _report_kernel(facts: HostFacts, actual: str, source: str) -> Verdict:
    return warning(
        "host.cma",
        facts.host,
        "kernel",
        expected="a kernel whose CMA is intact",
        seen=actual,
        source=source,
        fix="ibv_reg_mr fails with ENOMEM on this kernel: boot with kho=off, or another kernel",
    )


def check_faulty_driver(evidence: Evidence) -> Iterator[Verdict]:
    """Warn of drivers with a known fault."""
    for host in evidence.hosts:
        driver = evidence.facts[host].driver
        for faulty in FAULTY_DRIVERS:
            if faulty.versions.match(driver):
                yield warning(
                    "host.faulty_driver",
                    host,
                    "NVIDIA driver",
                    expected="a version without a known fault",
                    seen=f"{driver}, which {faulty.fault} ({faulty.source})",
                    source="nvidia-smi",
                    fix="install the driver branch of DGX OS and reboot: sudo apt-get install "
                    f"nvidia-driver-{GOOD_DRIVER}-open",
                )


def check_firmware_updater(evidence: Evidence) -> Iterator[Verdict]:
    """Warn of the package that flashes the NIC when it is upgraded; it bricked one."""
    for host in evidence.hosts:
        if evidence.facts[host].read(UPDATER).lack is None:
            yield warning(
                "host.fw_updater",
                host,
                "mlnx-fw-updater",
                expected="not installed",
                seen="installed",
                source=UPDATER,
                fix="sudo apt-get purge mlnx-fw-updater: upgrading it flashes the NIC",
            )


CHECKS: tuple[Check, ...] = (
    check_equal_versions,
    check_kernel_cma,
    check_faulty_driver,
    check_firmware_updater,
)
