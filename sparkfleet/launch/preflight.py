"""What can be known to be wrong with the hosts before anything is moved or stopped; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sparkfleet.facts import HostFacts
from sparkfleet.launch import declared, nccl, secrets
from sparkfleet.launch.costs import costs
from sparkfleet.launch.engines import NATIVE, kind, mods, options
from sparkfleet.launch.engines.checks import container_checks
from sparkfleet.launch.executor import Executor, choose
from sparkfleet.launch.images.image import Probe
from sparkfleet.launch.images.verdicts import Place, contents
from sparkfleet.launch.survey import PACKAGES, Survey
from sparkfleet.model import Severity, Verdict
from sparkfleet.recipes.settings import Settings


def preflight(
    facts: Mapping[str, HostFacts],
    surveys: Mapping[str, Survey],
    settings: Mapping[str, Settings],
    *,
    nodes: int,
) -> tuple[Verdict, ...]:
    """Return verdicts on every host: its GPU, its engine, its ports; then what must be equal."""
    names = list(settings)
    choice = choose(settings[names[0]], surveys, nodes=nodes)
    executor = choice.executor if choice else None
    verdicts: list[Verdict] = []
    for name in names:
        verdicts.append(_gpu(facts[name]))
        verdicts += costs(settings[name], facts[name], surveys[name])
        if (daemon := surveys[name].daemon) is None:
            verdicts += _engine(settings[name], surveys[name], executor)
        else:
            verdicts += container_checks(settings[name], facts[name], daemon)
        ports = _ports(settings[name], executor, head=name == names[0])
        verdicts += _free_ports(facts[name], surveys[name], ports)
        verdicts += _orphans(name, surveys[name])
    verdicts += _same_engine(surveys, settings, executor)
    found = {name: survey.nccl for name, survey in surveys.items() if survey.nccl}
    verdicts += nccl.judge(found, settings)
    return tuple(verdicts)


def check_settings(settings: Settings) -> None:
    """Raise InputError for settings of the engine and of vLLM that cannot be rendered later.

    Reads the mods and the secrets of this machine.
    """
    for name, value in settings.mapping("vllm_env").items():
        secrets.reveal(settings, name, value)
    if kind(settings) == NATIVE:
        settings.needed("engine_venv")
    else:
        settings.needed("engine_image")
        options.mounts(settings, "~", declared.files(settings, "~"))
        mods.read(settings)
    declared.words(settings, "", "")


def _gpu(facts: HostFacts) -> Verdict:
    return Verdict(
        check="host.gpu",
        severity=Severity.OK if facts.gpus else Severity.ERROR,
        host=facts.host,
        subject="GPU",
        expected="one that answers nvidia-smi",
        seen=facts.gpus[0].name if facts.gpus else "none",
        source="nvidia-smi",
        fix="" if facts.gpus else "is the driver loaded? try: nvidia-smi; after an update: reboot",
    )


def _engine(settings: Settings, survey: Survey, executor: Executor | None) -> Iterator[Verdict]:
    path = settings.needed("engine_venv")
    there = bool((survey.engine or {}).get("exists"))
    place = Place(
        name=path,
        source="engine_venv",
        absent="not installed" if there else "no such environment",
        add=f"on that host: {path}/bin/pip install '{{}}'",
    )
    nodes = 1 if executor is Executor.UNI else 2
    yield from contents(survey.probe or Probe(), settings, place, nodes=nodes, executor=executor)


def _ports(settings: Settings, executor: Executor | None, *, head: bool) -> Mapping[int, str]:
    """Return the ports that have to be free; all of them while the executor is not known."""
    names = ["vllm_port"] if head else []
    if executor in (Executor.RAY, None):
        names += ["ray_node_manager_port", "ray_object_manager_port"]
        names += ["ray_port"] if head else []
        names += ["ray_dashboard_port"] if head and settings.value("ray_dashboard") else []
    if executor in (Executor.MP, None):
        names += ["vllm_master_port"] if head else []
    return {settings.integer(name): name for name in names}


def _free_ports(facts: HostFacts, survey: Survey, ports: Mapping[int, str]) -> Iterator[Verdict]:
    ours = {process["pid"] for process in survey.processes}
    if survey.containers:
        ours.add(None)  # what root holds in a container shows no holder to the user
    for listener in facts.listeners:
        if listener.port not in ports or listener.pid in ours:
            continue
        yield Verdict(
            check="host.port",
            severity=Severity.ERROR,
            host=facts.host,
            subject=f"port {listener.port} ({ports[listener.port]})",
            expected="free",
            seen=f"held by {listener.holder}",
            source="/proc/net/tcp",
            fix=f"stop that process, or set another {ports[listener.port]}",
        )


def _orphans(host: str, survey: Survey) -> Iterator[Verdict]:
    """Refuse what runs with our label and no record: nobody knows what memory it takes."""
    if survey.hash is None and survey.running and not survey.state:
        yield Verdict(
            check="host.orphans",
            severity=Severity.ERROR,
            host=host,
            subject="what runs with our label",
            expected="a record of its start",
            seen=f"{survey.running} without one",
            source=f"{survey.folder}/deployment.json",
            fix="see it with cluster.status, end it with cluster.down",
        )


def _same_engine(
    surveys: Mapping[str, Survey], settings: Mapping[str, Settings], executor: Executor | None
) -> Iterator[Verdict]:
    packages = [name for name in PACKAGES if name != "ray" or executor is Executor.RAY]
    names: Sequence[str] = list(surveys)
    first = surveys[names[0]].engine or {}
    for name in names[1:]:
        if kind(settings[name]) != kind(settings[names[0]]):
            yield _other_engine(settings[names[0]], settings[name])
        engine = surveys[name].engine or {}
        for package in packages:
            if engine.get(package) != first.get(package):
                yield Verdict(
                    check="engine.same",
                    severity=Severity.ERROR,
                    host=name,
                    subject=package,
                    expected=f"{first.get(package)}, as on {names[0]}",
                    seen=str(engine.get(package)),
                    source="package metadata",
                    fix=f"install {package}=={first.get(package)} on {name}",
                )


def _other_engine(head: Settings, other: Settings) -> Verdict:
    wanted = kind(head)
    return Verdict(
        check="engine.same",
        severity=Severity.ERROR,
        host=other.host.name,
        subject="engine",
        expected=f"{wanted}, as on {head.host.name}",
        seen=kind(other),
        source=str(other.origin("engine")),
        fix=f"set engine: {wanted} for all hosts of the cluster",
    )
