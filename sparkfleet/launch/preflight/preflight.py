"""Checks of all hosts before anything is transferred or stopped; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sparkfleet.facts import HostFacts
from sparkfleet.launch import staged_paths
from sparkfleet.launch.deployment import secrets
from sparkfleet.launch.deployment.executor import Executor, select_executor
from sparkfleet.launch.engines import docker_options, mods
from sparkfleet.launch.engines.checks import check_container_engine
from sparkfleet.launch.host import nccl_library
from sparkfleet.launch.host.engine_kind import NATIVE, read_engine_kind
from sparkfleet.launch.host.image import Probe
from sparkfleet.launch.host.survey import PACKAGES, Survey
from sparkfleet.launch.images.checks import PackageLocation, check_packages
from sparkfleet.launch.preflight.endpoint_checks import check_endpoint_address
from sparkfleet.launch.preflight.host_checks import check_host
from sparkfleet.launch.preflight.port_checks import check_free_ports, list_required_ports
from sparkfleet.model import Verdict
from sparkfleet.onhost.shared.paths import NETWORK_FILESYSTEM
from sparkfleet.recipes.settings import Settings
from sparkfleet.verdicts import error, warning


def check_hosts(
    facts: Mapping[str, HostFacts],
    surveys: Mapping[str, Survey],
    settings: Mapping[str, Settings],
    *,
    nodes: int,
    copies: int = 1,
) -> tuple[Verdict, ...]:
    """Return verdicts on each host (GPU, memory, engine, ports), then on their equality.

    `copies` are those of ``--dp``, on `nodes` hosts together.
    """
    names = list(settings)
    choice = select_executor(settings[names[0]], surveys, nodes=nodes, copies=copies)
    executor = choice.executor if choice else None
    verdicts = list(_check_copies(settings[names[0]], executor, nodes=nodes, copies=copies))
    for name in names:
        verdicts += check_host(settings[name], facts[name], surveys[name])
        if (daemon := surveys[name].daemon) is None:
            verdicts += _check_native_engine(settings[name], surveys[name], executor)
        else:
            verdicts += check_container_engine(settings[name], facts[name], daemon)
            verdicts += _check_cache_folder(settings[name], surveys[name])
        ports = list_required_ports(settings[name], executor, head=name == names[0], copies=copies)
        verdicts += check_free_ports(facts[name], surveys[name], ports)
        verdicts += check_endpoint_address(settings[name], facts[name]) if name == names[0] else ()
        verdicts += _check_orphans(name, surveys[name])
    verdicts += _check_same_engine(surveys, settings, executor)
    libraries = {name: survey.nccl for name, survey in surveys.items() if survey.nccl}
    verdicts += nccl_library.check_nccl_libraries(libraries, settings)
    return tuple(verdicts)


def check_engine_settings(settings: Settings) -> None:
    """Raise InputError for settings of the engine and of vLLM that cannot be rendered later.

    Reads the mods and the secrets of this machine.
    """
    for name, value in settings.mapping("vllm_env").items():
        secrets.resolve_secret(settings, name, value)
    if read_engine_kind(settings) == NATIVE:
        settings.needed("engine_venv")
    else:
        settings.needed("engine_image")
        docker_options.parse_mounts(settings, "~", staged_paths.map_staged_files(settings, "~"))
        mods.read_mods(settings)
    staged_paths.build_user_arguments(settings, "", "")


def _check_copies(
    settings: Settings, executor: Executor | None, *, nodes: int, copies: int
) -> Iterator[Verdict]:
    """Refuse copies of several hosts without Ray.

    The head of such a copy leaves the group of all ranks and its other ranks do not, so that they
    wait for each other (v1/engine/core.py and entrypoints/cli/serve.py of vLLM 0.28 to 0.33).
    """
    if executor is Executor.MP and 1 < copies < nodes:
        yield error(
            "engine.copies",
            settings.host.name,
            "executor of copies with several hosts",
            expected=f"ray: each of {copies} copies has {nodes // copies} hosts",
            seen="mp, with which vLLM never starts them",
            source=str(settings.origin("vllm_executor")),
            fix="--executor ray, or copies of one host each: --tp 1 --pp 1",
        )


def _check_native_engine(
    settings: Settings, survey: Survey, executor: Executor | None
) -> Iterator[Verdict]:
    path = settings.needed("engine_venv")
    there = bool((survey.engine or {}).get("exists"))
    location = PackageLocation(
        name=path,
        source="engine_venv",
        absent="not installed" if there else "environment not found",
        add=f"on that host: {path}/bin/pip install '{{}}'",
    )
    nodes = 1 if executor is Executor.UNI else 2
    yield from check_packages(
        survey.probe or Probe(), settings, location, nodes=nodes, executor=executor
    )


def _check_cache_folder(settings: Settings, survey: Survey) -> Iterator[Verdict]:
    """Warn of a cache of compiled kernels on the network: files vanish while they are read."""
    if NETWORK_FILESYSTEM.fullmatch(survey.cache_filesystem):
        yield warning(
            "engine.cache",
            settings.host.name,
            settings.text("engine_cache_dir"),
            expected="a local disk, for compiled kernels",
            seen=f"{survey.cache_filesystem}, a network filesystem",
            source=str(settings.origin("engine_cache_dir")),
            fix="set engine_cache_dir of this host to a folder on its own disk",
        )


def _check_orphans(host: str, survey: Survey) -> Iterator[Verdict]:
    """Refuse processes with the cluster's label but no record: their memory use is unknown."""
    if survey.hash is None and survey.running_summary and not survey.state:
        yield error(
            "host.orphans",
            host,
            "processes of this cluster",
            expected="a record of their start",
            seen=f"{survey.running_summary} without one",
            source=f"{survey.folder}/deployment.json",
            fix="show them with {task:cluster.status}, stop them with {task:cluster.down}",
        )


def _check_same_engine(
    surveys: Mapping[str, Survey], settings: Mapping[str, Settings], executor: Executor | None
) -> Iterator[Verdict]:
    packages = [name for name in PACKAGES if name != "ray" or executor is Executor.RAY]
    names: Sequence[str] = list(surveys)
    first = surveys[names[0]].engine or {}
    for name in names[1:]:
        if read_engine_kind(settings[name]) != read_engine_kind(settings[names[0]]):
            yield _different_engine_verdict(settings[names[0]], settings[name])
        engine = surveys[name].engine or {}
        for package in packages:
            if engine.get(package) != first.get(package):
                yield error(
                    "engine.same",
                    name,
                    package,
                    expected=f"{first.get(package)}, as on {names[0]}",
                    seen=str(engine.get(package)),
                    source="package metadata",
                    fix=f"install {package}=={first.get(package)} on {name}",
                )


def _different_engine_verdict(head: Settings, worker: Settings) -> Verdict:
    expected = read_engine_kind(head)
    return error(
        "engine.same",
        worker.host.name,
        "engine",
        expected=f"{expected}, as on {head.host.name}",
        seen=read_engine_kind(worker),
        source=str(worker.origin("engine")),
        fix=f"set engine: {expected} for all hosts of the cluster",
    )
