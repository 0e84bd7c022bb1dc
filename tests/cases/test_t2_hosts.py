"""T2: hosts of public reports, with what the checks before a start say about them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkfleet.facts.host import GPU_QUERY
from sparkfleet.launch.images.checks import check_image_architecture, check_image_driver
from sparkfleet.model import Severity
from tests.engines import WITH_IMAGE, settings
from tests.gb10 import Cluster, output, pair

RECORDED = "580.159.03"  # the driver in tests/outputs/nvidia-smi.query-name-cap-driver.csv


@pytest.mark.parametrize(
    ("driver", "fault"),
    [
        ("610.43.02", "uses about 4 GiB more memory"),
        ("590.48.01", "deadlocks with CUDA graphs"),
        ("580.173.02", None),
        ("580.178.04", None),
        ("610.91.07", None),  # no report of it
    ],
)
def test_t2_45_a_driver_with_a_known_fault_is_a_warning(driver: str, fault: str | None) -> None:
    sparks = pair()
    recorded = output("nvidia-smi.query-name-cap-driver.csv")
    assert RECORDED in recorded
    for spark in sparks:
        spark.text(GPU_QUERY, recorded.replace(RECORDED, driver))
    found = Cluster(*sparks).found("host.faulty_driver")
    assert [verdict.host for verdict in found] == (["spark-1", "spark-2"] if fault else [])
    for verdict in found:
        assert verdict.severity is Severity.WARNING
        assert f"{driver}, which {fault}" in verdict.seen
        assert "nvidia-driver-580-open" in verdict.fix


@pytest.mark.parametrize(
    ("image", "machine", "refused"),
    [
        ("amd64", "aarch64", True),
        ("arm64", "aarch64", False),
        ("amd64", "x86_64", False),
        ("arm64", "x86_64", True),
        ("", "aarch64", False),  # not known
        ("amd64", "", False),
        ("amd64", "riscv64", False),
    ],
)
def test_t2_23_an_image_of_another_processor_is_refused_before_the_start(
    image: str, machine: str, *, refused: bool
) -> None:
    found = list(
        check_image_architecture(replace(WITH_IMAGE, architecture=image), settings(), machine)
    )
    assert [verdict.refuses for verdict in found] == ([True] if refused else [])
    for verdict in found:
        assert verdict.seen == image
        assert "linux/" in verdict.fix


@pytest.mark.parametrize(
    ("needs", "driver", "warned"),
    [
        ("cuda>=13.1", "580.95.05", True),
        ("cuda>=13.0", "580.95.05", False),
        ("cuda>=13.0 brand=tesla,driver>=570,driver<571", "570.10", False),  # the brand is unknown
        ("cuda>=13.0 driver>=580,driver<581", "570.10", True),
        ("cuda>=13.1 driver>=580,driver<581", "580.95.05", False),
        ("cuda>=14.0", "777.1", False),  # a branch that is not known
        ("cuda>=13.1", "", False),
        ("", "580.95.05", False),
    ],
)
def test_t2_23_an_image_that_asks_for_a_newer_driver_is_warned_of(
    needs: str, driver: str, *, warned: bool
) -> None:
    image = replace(WITH_IMAGE, environment={"NVIDIA_REQUIRE_CUDA": needs})
    found = list(check_image_driver(image, settings(), driver))
    assert [verdict.severity for verdict in found] == ([Severity.WARNING] if warned else [])


def test_t2_23_an_image_that_asks_for_nothing_is_not_warned_of() -> None:
    image = replace(WITH_IMAGE, environment={"NVIDIA_REQUIRE_CUDA": "cuda>=13.1"})
    unchecked = settings(vllm_env={"NVIDIA_DISABLE_REQUIRE": "1"})
    assert list(check_image_driver(image, unchecked, "580.95.05")) == []
    assert list(check_image_driver(image, settings(engine_gpus="none"), "580.95.05")) == []
