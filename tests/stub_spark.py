"""A lab host whose image holds stand-ins for vLLM and Python, which print what they were given."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from sparkfleet.commands import Command
from sparkfleet.facts import gather_facts
from sparkfleet.inventory.loading import load_inventory
from sparkfleet.lab import fleet, paths
from sparkfleet.launch.deployment.deployment import Deployment, render_deployment
from sparkfleet.launch.deployment.environment import build_rank_environment
from sparkfleet.launch.deployment.node import DeploymentNode
from sparkfleet.launch.engines.choice import create_engine
from sparkfleet.launch.engines.container import ContainerEngine
from sparkfleet.launch.host import processes
from sparkfleet.launch.host.survey import Survey, survey_host
from sparkfleet.launch.preflight.port_checks import check_free_ports
from sparkfleet.model import Value
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.channel import Channel
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.local import LocalConnection
from sparkfleet.remote.open import open_connection
from tests import gb10

CLUSTER = "stub"
STUB = "sparkfleet-stub:1"
# Stand-ins in the image: `vllm` prints its arguments and its environment, and keeps running.
PROGRAMS = {
    "stub/vllm": """#!/bin/bash
printf '%s\\0' "$@" | base64 -w0; echo
env -0 | base64 -w0; echo
[ -n "${STAY:-}" ] && exec sleep 600
exit 0
""",
    "stub/python3": """#!/bin/bash
[ "$2" = pip ] || PATH=${PATH#*:} exec python3 "$@"
case " $* " in *" broken "*) echo "ERROR: no such package: broken" >&2; exit 1 ;; esac
printf '%s\\n' "${@:5}" >/packages
""",
}
BAKED = [
    "ENV NCCL_IB_ADDR_RANGE=10.0.0.0/8",
    "ENV EMPTY_IS_SET=",
    'ENTRYPOINT ["vllm", "of"]',
    'CMD ["the image"]',
]


class RootLink(LocalConnection):
    """Root on a lab host, without SSH: the lab's hosts let only their user in."""

    def _start(self, command: Command) -> Channel:
        booted = fleet.read_fleet()
        assert booted is not None
        pid = next(one.pid1 for one in booted.hosts if one.name == self.host.name)
        enter = ("nsenter", f"--target={pid}", "--mount", "--uts", "--ipc", "--net", "--pid", "--")
        home = ("env", "HOME=/root", "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        return super()._start(replace(command, argv=(*enter, *home, *command.argv)))


class Spark:
    """A lab host: the way to it as a user, its settings, and the root of it."""

    def __init__(self, name: str, *, root: bool = False, **own: Any) -> None:
        host = load_inventory([str(paths.DOCKER_INVENTORY)]).hosts[name]
        mine = {"engine_image": STUB, "vllm_model": "m", **own}
        values = {key: Value(data=value) for key, value in mine.items()}
        self.settings = Settings(host=replace(host, vars={**host.vars, **values}))
        self.link: Connection = RootLink(host) if root else open_connection(host)
        self.name = name
        self.facts = gb10.pair()[0].facts()

    def survey(self) -> Survey:
        return survey_host(self.link, self.settings, CLUSTER)

    @property
    def place(self) -> Mapping[str, str]:
        return processes.locate_deployment(self.settings, CLUSTER)

    def judge_ports(self, *ports: int) -> dict[int, str]:
        """Return who holds some ports, as the checks before a start say it; not the cluster's."""
        facts, seen = gather_facts(self.link, ports=ports, fabric=False), self.survey()
        verdicts = check_free_ports(facts, seen, dict.fromkeys(ports, "a_port"))
        return {
            int(verdict.subject.split()[1]): verdict.seen.removeprefix("a port in use by ")
            for verdict in verdicts
        }

    @contextmanager
    def serve(self, port: int, *, user: str) -> Iterator[None]:
        """Let a process of a user listen on a port of the host, outside all containers."""
        inside = f"runuser -u {user} -- python3 -u -c"
        program = (
            "import socket, time; s = socket.create_server(('', {})); print(1); time.sleep(600)"
        )
        booted = fleet.read_fleet()
        assert booted is not None
        pid = next(host.pid1 for host in booted.hosts if host.name == self.name)
        enter = ["nsenter", "-t", str(pid), "-m", "-u", "-i", "-n", "-p", "--", *inside.split()]
        with subprocess.Popen(
            [*enter, program.format(port)], stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "1\n"
            try:
                yield
            finally:
                self.root(
                    "sh",
                    "-c",
                    f"ss -tlnpH 'sport = :{port}' | sed 's/.*pid=//; s/,.*//' | xargs kill",
                )

    def root(self, *words: str, check: bool = True) -> str:
        done = fleet.run_on(self.name, words, check=check)
        return done.stdout + done.stderr

    def deployment(self, **own: Any) -> Deployment:
        """Return what would run there, with more variables set."""
        values = {key: Value(data=value) for key, value in own.items()}
        host = replace(self.settings.host, vars={**self.settings.host.vars, **values})
        mine, seen = Settings(host=host), self.survey()
        runs = create_engine(mine, seen, self.facts, cluster=CLUSTER, group=False)
        assert isinstance(runs, ContainerEngine)
        node = DeploymentNode(
            settings=mine,
            rank=0,
            address=None,
            engine=runs,
            folder=seen.folder,
            weights=seen.expand("~/vllm"),
            model=seen.expand("~/vllm/m"),
            environment=build_rank_environment(
                mine,
                (),
                cluster=CLUSTER,
                hf_home="/models",
                model=runs.inside(seen.expand("~/vllm/m")),
                engine=runs.environment,
            ),
        )
        return render_deployment(CLUSTER, [node], tp=1, pp=1, contents=[])

    def write(self, deployment: Deployment) -> None:
        processes.write_files(self.link, self.place, deployment.files[self.name])

    def run(self, **own: Any) -> tuple[list[str], dict[str, str]]:
        """Run the rendered script by hand; return what the stand-in was given."""
        self.write(self.deployment(**own))
        script = f"{self.survey().folder}/vllm-serve.sh"
        done = self.link.run(Command(argv=("bash", script)))
        assert done.returncode == 0, done.stderr + done.text
        words, variables = (base64.b64decode(line) for line in done.stdout.splitlines())
        pairs = (one.decode().partition("=") for one in variables.split(b"\0") if one)
        return words.decode().split("\0")[:-1], {name: value for name, _, value in pairs}

    def start(self, **own: Any) -> None:
        made = self.deployment(**{"vllm_env": {"STAY": "1"}, **own})
        self.write(made)
        processes.start_process(self.link, self.place, "serve", "vllm-serve.sh", hash_=made.hash)

    def stop(self) -> int:
        return processes.stop_processes(self.link, self.place, grace=2)

    def running(self) -> list[str]:
        cli = self.settings.text("engine")
        return self.root(cli, "ps", "-a", "--format", "{{.Names}}").split()
