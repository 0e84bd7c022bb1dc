"""What is inside an image, against what shall run in it; pure. Known before anything stops."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from sparkfleet.launch.images.image import Image, Probe
from sparkfleet.model import Severity, Verdict
from sparkfleet.recipes.settings import Settings

# Settings of a network, which are its author's: NCCL_VERSION is none, every CUDA image has it.
BAKED = re.compile(r"(NCCL|GLOO|UCX|TP)_(?!(VERSION|HOME)$)\w+|VLLM_(NCCL_SO_PATH|HOST_IP)")
LEAST = (("vllm", "vllm_min_version"), ("transformers", "vllm_min_transformers"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where packages are: a name, the variable that gives it, what to say of one and how to add it.

    `absent` and `add` hold ``{}`` for the package's name.
    """

    name: str
    source: str
    absent: str
    add: str


def inside(
    image: Image,
    settings: Settings,
    variables: Collection[str],
    *,
    nodes: int,
    executor: str = "ray",
) -> Iterator[Verdict]:
    """Yield verdicts on what a probe found; `variables` are the names that the ranks set or unset.

    `executor`, ray or mp, joins several nodes. Nothing for an image that nobody has looked into.
    """
    probe = image.probe
    if probe is None:
        return
    place = Place(
        name=image.name,
        source="engine_image",
        absent="{}: command not found",
        add="add it (engine_pip: ['{}']), or take another image",
    )
    yield from contents(probe, settings, place, nodes=nodes, executor=executor)
    yield from _gpu(image, settings, probe)
    yield from _baked(image, settings, variables)
    yield from _nccl_conf(image, settings, probe)


def contents(
    probe: Probe, settings: Settings, place: Place, *, nodes: int, executor: str | None
) -> Iterator[Verdict]:
    """Yield verdicts on the packages of an image or of a Python environment."""
    yield _program(place, settings, probe, "vllm")
    if nodes > 1 and executor == "ray":
        yield _program(place, settings, probe, "ray")
    elif nodes > 1:
        yield _spans_nodes(place, settings, probe)
    for package, variable in LEAST:
        yield from _recent(place, settings, probe, (package, variable))


def _program(place: Place, settings: Settings, probe: Probe, name: str) -> Verdict:
    found = name in probe.programs
    version = probe.packages.get(name, "")
    fix = place.add.format("ray[default]" if name == "ray" else name)
    fix += ", or the mp executor (--executor mp)" if name == "ray" else ""
    return Verdict(
        check=f"engine.{name}",
        severity=Severity.OK if found else Severity.ERROR,
        host=settings.host.name,
        subject=f"{name} in {place.name}",
        expected="on its PATH",
        seen=version or ("there" if found else place.absent.format(name)),
        source=str(settings.origin(place.source)),
        fix="" if found else fix,
    )


def _spans_nodes(place: Place, settings: Settings, probe: Probe) -> Verdict:
    return Verdict(
        check="engine.nnodes",
        severity=Severity.OK if probe.nodes else Severity.ERROR,
        host=settings.host.name,
        subject=f"vLLM in {place.name}",
        expected="the option --nnodes, which the mp executor needs",
        seen="there" if probe.nodes else f"vLLM {probe.packages.get('vllm', '')} without it",
        source="vllm/engine/arg_utils.py",
        fix="" if probe.nodes else "take the ray executor, or a newer vLLM",
    )


def _recent(
    place: Place, settings: Settings, probe: Probe, wanted: tuple[str, str]
) -> Iterator[Verdict]:
    package, variable = wanted
    least = settings.text(variable)
    if not least:
        return
    version = probe.packages.get(package, "")
    enough = at_least(version, least)
    yield Verdict(
        check=f"engine.{package}_version",
        severity=Severity.OK if enough else Severity.ERROR,
        host=settings.host.name,
        subject=f"{package} in {place.name}",
        expected=f"{least} or later",
        seen=version or "none",
        source=str(settings.origin(variable)),
        fix="" if enough else place.add.format(f"{package}>={least}"),
    )


def at_least(version: str, least: str) -> bool:
    """Whether a version is not older than another, by its release: nightlies count as theirs."""
    return _release(version) >= _release(least)


def _release(version: str) -> tuple[int, ...]:
    found = re.match(r"v?(\d+(?:\.\d+)*)", version)
    numbers = [int(part) for part in found[1].split(".")] if found else [-1]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _gpu(image: Image, settings: Settings, probe: Probe) -> Iterator[Verdict]:
    if settings.text("engine_gpus") == "none":
        return
    has_tool = "nvidia-smi" in probe.programs
    lost = Severity.ERROR if has_tool else Severity.WARNING
    yield Verdict(
        check="engine.gpu_inside",
        severity=Severity.OK if probe.gpus else lost,
        host=settings.host.name,
        subject=f"GPU in a container of {image.name}",
        expected="listed by nvidia-smi",
        seen=probe.gpus.strip().partition(" (")[0] or ("none" if has_tool else "no nvidia-smi"),
        source="nvidia-smi -L in a container",
        fix="" if probe.gpus else "does nvidia-smi work on the host? a new kernel needs a reboot",
    )


def _baked(image: Image, settings: Settings, variables: Collection[str]) -> Iterator[Verdict]:
    for name, value in image.environment.items():
        if BAKED.fullmatch(name) is None or name in variables:
            continue
        yield Verdict(
            check="engine.baked",
            severity=Severity.WARNING,
            host=settings.host.name,
            subject=f"{name} in {image.name}",
            expected="no setting of its author's network",
            seen=value,
            source="the image's environment",
            fix=f"take it out with nccl_env: {{{name}: null}}, or give it your own value",
        )


def _nccl_conf(image: Image, settings: Settings, probe: Probe) -> Iterator[Verdict]:
    lines = [line for line in probe.nccl_conf.splitlines() if line.strip() and line[0] != "#"]
    if not lines:
        return
    yield Verdict(
        check="engine.nccl_conf",
        severity=Severity.WARNING,
        host=settings.host.name,
        subject=f"/etc/nccl.conf in {image.name}",
        expected="no file: it sets what the environment does not",
        seen=", ".join(lines),
        source="/etc/nccl.conf in a container",
        fix="hide it: engine_mounts: ['/dev/null:/etc/nccl.conf:ro']",
    )
