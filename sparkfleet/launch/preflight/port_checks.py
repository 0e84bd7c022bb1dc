"""Checks that the ports of the deployment are free; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sparkfleet.facts import HostFacts
from sparkfleet.facts.machine import Listener
from sparkfleet.launch.deployment.executor import Executor
from sparkfleet.launch.host.survey import Survey
from sparkfleet.model import Severity, Verdict
from sparkfleet.recipes.settings import Settings
from sparkfleet.verdicts import build_verdict


def list_required_ports(
    settings: Settings, executor: Executor | None, *, head: bool, copies: int = 1
) -> Mapping[int, str]:
    """Return the ports that must be free; of all executors while it is unknown."""
    names = ["vllm_port"] if head else []
    if executor in (Executor.RAY, None):
        names += ["ray_node_manager_port", "ray_object_manager_port"]
        names += ["ray_port"] if head else []
        names += ["ray_dashboard_port"] if head and settings.value("ray_dashboard") else []
    if executor in (Executor.MP, None):
        names += ["vllm_master_port" if copies == 1 else "vllm_dp_port"] if head else []
    return {settings.integer(name): name for name in names}


def check_free_ports(
    facts: HostFacts, survey: Survey, ports: Mapping[int, str]
) -> Iterator[Verdict]:
    """Yield a verdict for each port of `ports`, by its variable, that is held by others."""
    managed = {process["pid"] for process in survey.processes}
    held = survey.sockets or frozenset()
    for listener in facts.listeners:
        if listener.port not in ports or listener.pid in managed or listener.inode in held:
            continue
        unknown = listener.pid is None and survey.sockets is None
        holder = _name_port_holder(listener, survey)
        yield build_verdict(
            Severity.WARNING if unknown else Severity.ERROR,
            "host.port",
            facts.host,
            f"port {listener.port} ({ports[listener.port]})",
            expected="a free port",
            seen=f"a port in use by {holder}"
            + (", unknown whether in a container of this cluster" if unknown else ""),
            source="/proc/net/tcp",
            fix=f"stop it, or change {ports[listener.port]}: "
            f"sudo ss -tlnp 'sport = :{listener.port}' shows it",
        )


def _name_port_holder(listener: Listener, survey: Survey) -> str:
    """Return the container that holds a port, else the process, as far as it is visible."""
    container = survey.holders.get(listener.inode) or survey.published.get(listener.port)
    return container or listener.holder
