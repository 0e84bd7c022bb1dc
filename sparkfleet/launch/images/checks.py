"""Checks of an image's contents before anything is stopped; pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from sparkfleet.launch.host.image import ContainerImage, Probe
from sparkfleet.model import Severity, Verdict
from sparkfleet.recipes.settings import Settings
from sparkfleet.verdicts import build_verdict, error, warning

ARCHITECTURES = {"aarch64": "arm64", "x86_64": "amd64"}  # what engines call the machines of uname
REQUIREMENT = "NVIDIA_REQUIRE_CUDA"  # alternatives; each is conditions with commas between
UNCHECKED = "NVIDIA_DISABLE_REQUIRE"
CONDITION = re.compile(r"(?P<name>cuda|driver)(?P<sign>[<>]=?|=)(?P<version>\d+(?:\.\d+)*)")
# The CUDA that nvidia-smi shows for a branch of the driver, 2026-11; others are not known.
CUDA_OF_DRIVER = {"570": "12.8", "575": "12.9", "580": "13.0", "590": "13.1", "610": "13.3"}
# Network settings, which only fit their author's network; NCCL_VERSION is in every CUDA image.
BAKED = re.compile(r"(NCCL|GLOO|UCX|TP)_(?!(VERSION|HOME)$)\w+|VLLM_(NCCL_SO_PATH|HOST_IP)")
MINIMUM_VERSIONS = (("vllm", "vllm_min_version"), ("transformers", "vllm_min_transformers"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageLocation:
    """An image or environment: its name, its variable, and texts for a missing package.

    `absent` and `add` hold ``{}`` for the package's name.
    """

    name: str
    source: str
    absent: str
    add: str


def check_image_contents(
    image: ContainerImage,
    settings: Settings,
    variables: Collection[str],
    *,
    nodes: int,
    executor: str = "ray",
) -> Iterator[Verdict]:
    """Yield verdicts on an inspected image; `variables` are the names that ranks set or unset.

    `executor`, ray or mp, joins several nodes. Yields nothing for an image without a probe.
    """
    probe = image.probe
    if probe is None:
        return
    location = PackageLocation(
        name=image.name,
        source="engine_image",
        absent="{}: command not found",
        add="add it (engine_pip: ['{}']), or use another image",
    )
    yield from check_packages(probe, settings, location, nodes=nodes, executor=executor)
    yield from _check_shell(image, settings, probe)
    yield from _check_gpu_inside(image, settings, probe)
    yield from _check_baked_variables(image, settings, variables)
    yield from _check_nccl_conf(image, settings, probe)


def check_image_architecture(
    image: ContainerImage, settings: Settings, machine: str
) -> Iterator[Verdict]:
    """Yield an error for an image of another processor than `machine`, as `uname -m` prints it.

    A container of it ends with "exec format error". Nothing for what is not known.
    """
    expected = ARCHITECTURES.get(machine, "")
    if not expected or not image.architecture or image.architecture == expected:
        return
    yield error(
        "engine.architecture",
        settings.host.name,
        f"architecture of {image.name}",
        expected=f"{expected}: the host is {machine}",
        seen=image.architecture,
        source=str(settings.origin("engine_image")),
        fix=f"use an image with a build for linux/{expected}, such as vllm/vllm-openai with a CUDA "
        "13 tag; remove this one on that host so that it is pulled again",
    )


def check_image_driver(image: ContainerImage, settings: Settings, driver: str) -> Iterator[Verdict]:
    """Yield a warning for an image that asks for a newer `driver` than the host has.

    NVIDIA's container toolkit does not start it: "unsatisfied condition: cuda>=13.1"
    (NVIDIA/nvidia-container-toolkit#152). Nothing for what is not known.
    """
    needs = image.environment.get(REQUIREMENT, "")
    own = settings.mapping("vllm_env").get(UNCHECKED, image.environment.get(UNCHECKED))
    unchecked = str(own).lower() in ("1", "true", "yes", "on")
    if not needs or not driver or unchecked or settings.text("engine_gpus") == "none":
        return
    if any(_meets_requirement(need, driver) for need in needs.split()):
        return
    yield warning(
        "engine.driver",
        settings.host.name,
        f"driver for {image.name}",
        expected=" or ".join(needs.split()[:3]),
        seen=f"{driver} (CUDA {CUDA_OF_DRIVER.get(driver.partition('.')[0], '?')})",
        source=f"{REQUIREMENT} of the image",
        fix="use an image with an older CUDA, or update the driver of that host and reboot",
    )


def _meets_requirement(need: str, driver: str) -> bool:
    """Return whether a driver may meet conditions such as `cuda>=13.0,driver<590`."""
    return all(_meets_condition(one, driver) for one in need.split(","))


def _meets_condition(condition: str, driver: str) -> bool:
    match = CONDITION.fullmatch(condition)
    if match is None:
        return True  # brand=..., which the facts do not have
    known = {"driver": driver, "cuda": CUDA_OF_DRIVER.get(driver.partition(".")[0], "")}
    actual = known[match["name"]]
    bound = match["version"]
    if not actual:
        return True
    have, want = _parse_release(actual), _parse_release(bound)
    if match["name"] == "driver":  # driver<590 is about the branch
        have = have[: len(want)]
    return {">=": have >= want, ">": have > want, "<": have < want, "<=": have <= want}.get(
        match["sign"], have == want
    )


def check_packages(
    probe: Probe, settings: Settings, location: PackageLocation, *, nodes: int, executor: str | None
) -> Iterator[Verdict]:
    """Yield verdicts on the packages of an image or of a Python environment."""
    yield _check_program(location, settings, probe, "vllm")
    if nodes > 1 and executor == "ray":
        yield _check_program(location, settings, probe, "ray")
    elif nodes > 1:
        yield _check_nnodes_option(location, settings, probe)
    for package, variable in MINIMUM_VERSIONS:
        yield from _check_package_version(location, settings, probe, (package, variable))


def _check_program(
    location: PackageLocation, settings: Settings, probe: Probe, name: str
) -> Verdict:
    present = name in probe.programs
    version = probe.packages.get(name, "")
    fix = location.add.format("ray[default]" if name == "ray" else name)
    fix += ", or use the mp executor (--executor mp)" if name == "ray" else ""
    return build_verdict(
        Severity.OK if present else Severity.ERROR,
        f"engine.{name}",
        settings.host.name,
        f"{name} in {location.name}",
        expected="a program on its PATH",
        seen=version or ("one" if present else location.absent.format(name)),
        source=str(settings.origin(location.source)),
        fix="" if present else fix,
    )


def _check_shell(image: ContainerImage, settings: Settings, probe: Probe) -> Iterator[Verdict]:
    """Refuse an image without bash: it replaces the image's entrypoint, whatever that is."""
    if "bash" in probe.programs:
        return
    yield error(
        "engine.bash",
        settings.host.name,
        f"bash in {image.name}",
        expected="a program on its PATH: each container runs a script, not the image's entrypoint",
        seen="bash: command not found",
        source=str(settings.origin("engine_image")),
        fix="use an image with bash, such as vllm/vllm-openai",
    )


def _check_nnodes_option(location: PackageLocation, settings: Settings, probe: Probe) -> Verdict:
    return build_verdict(
        Severity.OK if probe.nodes else Severity.ERROR,
        "engine.nnodes",
        settings.host.name,
        f"vLLM in {location.name}",
        expected="the option --nnodes, required by the mp executor",
        seen=f"vLLM {probe.packages.get('vllm', '')} {'with' if probe.nodes else 'without'} it",
        source="vllm/engine/arg_utils.py",
        fix="" if probe.nodes else "use the ray executor, or a newer vLLM",
    )


def _check_package_version(
    location: PackageLocation, settings: Settings, probe: Probe, requirement: tuple[str, str]
) -> Iterator[Verdict]:
    package, variable = requirement
    least = settings.text(variable)
    if not least:
        return
    version = probe.packages.get(package, "")
    enough = is_at_least(version, least)
    yield build_verdict(
        Severity.OK if enough else Severity.ERROR,
        f"engine.{package}_version",
        settings.host.name,
        f"{package} in {location.name}",
        expected=f"{least} or later",
        seen=version or "none",
        source=str(settings.origin(variable)),
        fix="" if enough else location.add.format(f"{package}>={least}"),
    )


def is_at_least(version: str, least: str) -> bool:
    """Whether a version is not older than another, by release; nightlies count as their release."""
    return _parse_release(version) >= _parse_release(least)


def _parse_release(version: str) -> tuple[int, ...]:
    match = re.match(r"v?(\d+(?:\.\d+)*)", version)
    numbers = [int(part) for part in match[1].split(".")] if match else [-1]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _check_gpu_inside(image: ContainerImage, settings: Settings, probe: Probe) -> Iterator[Verdict]:
    if settings.text("engine_gpus") == "none":
        return
    has_tool = "nvidia-smi" in probe.programs
    lost = Severity.ERROR if has_tool else Severity.INFO  # an image without the tool may be right
    yield build_verdict(
        Severity.OK if probe.gpus else lost,
        "engine.gpu_inside",
        settings.host.name,
        f"GPU in a container of {image.name}",
        expected="a GPU listed by nvidia-smi",
        seen=probe.gpus.strip().partition(" (")[0] or ("none" if has_tool else "no nvidia-smi"),
        source="nvidia-smi -L in a container",
        fix="run nvidia-smi on the host; reboot after a kernel update"
        if has_tool and not probe.gpus
        else "",
    )


def _check_baked_variables(
    image: ContainerImage, settings: Settings, variables: Collection[str]
) -> Iterator[Verdict]:
    for name, value in image.environment.items():
        if BAKED.fullmatch(name) is None or name in variables:
            continue
        yield warning(
            "engine.baked",
            settings.host.name,
            f"{name} in {image.name}",
            expected="no network settings in the image",
            seen=value,
            source="the image's environment",
            fix=f"unset it with nccl_env: {{{name}: null}}, or set your own value",
        )


def _check_nccl_conf(image: ContainerImage, settings: Settings, probe: Probe) -> Iterator[Verdict]:
    lines = [line for line in probe.nccl_conf.splitlines() if line.strip() and line[0] != "#"]
    mounts = map(str, settings.value("engine_mounts") or ())
    hidden = any(mount.split(":")[1:2] == ["/etc/nccl.conf"] for mount in mounts)
    if not lines or hidden:
        return
    yield warning(
        "engine.nccl_conf",
        settings.host.name,
        f"/etc/nccl.conf in {image.name}",
        expected="no file: it sets variables that the environment does not",
        seen=", ".join(lines),
        source="/etc/nccl.conf in a container",
        fix="hide it: engine_mounts: ['/dev/null:/etc/nccl.conf:ro']",
    )
