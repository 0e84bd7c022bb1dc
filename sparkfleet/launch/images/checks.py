"""Checks of images: on every host, room to copy, contents; before anything is stopped; pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from sparkfleet.launch.host.image import ContainerImage, Probe
from sparkfleet.launch.host.survey import Survey
from sparkfleet.launch.images.plan import (
    DistributePlan,
    find_image_owner,
    is_different_image,
    plan_distribution,
)
from sparkfleet.model import Severity, Verdict
from sparkfleet.quantities import format_size
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
LOAD_NEEDS = 2  # times the size: an engine unpacks an image in addition to its own copy
SAVE_NEEDS = 1  # times the size: overlay2 writes a temporary copy to save an image
STREAMING = "overlayfs"  # storage driver of the containerd image store, which saves as a stream
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


def check_missing_images(
    surveys: Mapping[str, Survey], settings: Mapping[str, Settings]
) -> Iterator[Verdict]:
    """Yield errors for missing images with engine_image_source: none."""
    head = next(iter(surveys))
    way = settings[head].text("engine_image_source")
    for name, survey in surveys.items():
        if way != "none" or survey.image or survey.base:
            continue
        image = settings[name].text("engine_image")
        yield error(
            "image.present",
            name,
            image,
            expected="the image on this host (engine_image_source is none)",
            seen="no image",
            source=str(settings[name].origin("engine_image")),
            fix=f"on that host: {survey.daemon.cli if survey.daemon else 'docker'} pull {image}, "
            "or set engine_image_source: copy",
        )


def check_unequal_images(
    surveys: Mapping[str, Survey], settings: Mapping[str, Settings]
) -> Iterator[Verdict]:
    """Yield errors for hosts whose image differs from the first one and is not copied."""
    source = find_image_owner(surveys)
    plans = plan_distribution(surveys, settings)
    for name, survey in surveys.items():
        if (
            source is None
            or plans[name].source
            or not is_different_image(survey.image, surveys[source].image)
        ):
            continue
        yield error(
            "image.same",
            name,
            survey.image_name or settings[name].text("engine_image"),
            expected=f"{_format_image_digest(surveys[source].image)}, as on {source}",
            seen=_format_image_digest(survey.image),
            source="RepoDigests and RootFS.Layers",
            fix="pin it by digest, NAME@sha256:..., or set engine_image_source: copy",
        )


def _format_image_digest(image: ContainerImage | None) -> str:
    return "no image" if image is None else image.digest or f"layers {image.key}"


def check_image_space(
    surveys: Mapping[str, Survey], plans: Mapping[str, DistributePlan]
) -> Iterator[Verdict]:
    """Yield errors for hosts without disk space for a copy, at either end."""
    sources = {plan.source for plan in plans.values() if plan.source}
    for source in sources:
        yield from _check_engine_storage(surveys[source], source, surveys[source].image, SAVE_NEEDS)
        for name, plan in plans.items():
            if plan.source == source:
                yield from _check_engine_storage(
                    surveys[name], name, surveys[source].image, LOAD_NEEDS
                )


def _check_engine_storage(
    survey: Survey, name: str, image: ContainerImage | None, times: int
) -> Iterator[Verdict]:
    daemon = survey.daemon
    if image is None or daemon is None or daemon.free is None:
        return
    if times == SAVE_NEEDS and daemon.storage == STREAMING:
        return
    needed = times * image.size
    if daemon.free >= needed:
        return
    yield error(
        "image.space",
        name,
        daemon.root,
        expected=f"{format_size(needed)} free to copy {image.name}",
        seen=f"{format_size(daemon.free)} free",
        source=f"{daemon.cli} info, statvfs",
        fix=f"on that host: {daemon.cli} image prune; usage: {daemon.cli} system df",
    )


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
    match = re.match(r"v?(\d{1,9}(?:\.\d{1,9})*)", version)
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
