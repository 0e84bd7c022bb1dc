"""Hosts with container engines, as values."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkfleet.launch.deployment.deployment import Deployment, render_deployment
from sparkfleet.launch.deployment.environment import build_rank_environment
from sparkfleet.launch.deployment.executor import Executor
from sparkfleet.launch.deployment.node import DeploymentNode
from sparkfleet.launch.engines.choice import create_engine
from sparkfleet.launch.engines.engine import Engine
from sparkfleet.launch.host.daemon import Daemon
from sparkfleet.launch.host.image import ContainerImage, Probe
from sparkfleet.launch.host.survey import Survey
from sparkfleet.links import EnvVar
from sparkfleet.model import Host, Value
from sparkfleet.recipes.settings import Settings
from tests import gb10
from tests.surveys import make_survey

IMAGE = "nvcr.io/nvidia/vllm:26.04-py3"
DOCKER = Daemon(
    cli="docker",
    version="29.2.1",
    client="29.2.1",
    root="/var/lib/docker",
    free=10**12,
    storage="overlay2",
    cgroups="systemd",
    hook=True,
)
PROBE = Probe(
    packages={"vllm": "0.19.0", "ray": "2.55.0", "transformers": "5.1.0"},
    programs=("vllm", "ray", "bash", "python3", "nvidia-smi"),
    nodes=True,
    gpus="GPU 0: NVIDIA GB10 (UUID: GPU-1)\n",
)
WITH_IMAGE = ContainerImage(
    name=IMAGE,
    id="sha256:1",
    key="abcdef123456",
    layers=("sha256:a", "sha256:b"),
    digests=(f"{IMAGE.partition(':')[0]}@sha256:d1",),
    size=20 * 10**9,
    architecture="arm64",
    probe=PROBE,
)


def settings(name: str = "spark-1", **variables: Any) -> Settings:
    """Return the settings of a host whose engine is Docker."""
    own = {"engine": "docker", "engine_image": IMAGE, "vllm_model": "org/model", **variables}
    return Settings(host=Host(name=name, vars={key: Value(data=own[key]) for key in own}))


def survey(**changes: Any) -> Survey:
    """Return the answer of a host with the image and no managed process."""
    found = make_survey(
        user="1000:1000",
        daemon=DOCKER,
        image=WITH_IMAGE,
        image_name=WITH_IMAGE.name,
        base=WITH_IMAGE,
    )
    return replace(found, **changes)


def engine(group: bool = False, seen: Survey | None = None, **variables: Any) -> Engine:
    """Return the engine of the first of two Sparks."""
    facts = gb10.pair()[0].facts()
    seen = seen or survey()
    return create_engine(settings(**variables), seen, facts, cluster="default", group=group)


def words(role: str = "serve", *, group: bool = False, **variables: Any) -> tuple[str, ...]:
    """Return the words that the script of a role execs."""
    return engine(group=group, **variables).wrap(role, ("vllm", "serve", "/models/x"), {})


def deployed(
    variables: tuple[EnvVar, ...] = (),
    hosts: int = 1,
    executor: Executor = Executor.RAY,
    copies: int = 1,
    **own: Any,
) -> tuple[Deployment, Mapping[str, Mapping[str, str]]]:
    """Return the deployment of `hosts` Sparks with Docker, and its files by host."""
    nodes = []
    for rank in range(hosts):
        mine = settings(f"spark-{rank + 1}", **own)
        ray = hosts > 1 and executor is Executor.RAY
        runs = create_engine(
            mine, survey(), gb10.pair()[rank % 2].facts(), cluster="default", group=ray
        )
        nodes.append(
            DeploymentNode(
                settings=mine,
                rank=rank,
                address=f"192.168.100.{rank + 1}" if hosts > 1 else None,
                engine=runs,
                folder=survey().folder,
                weights="/home/nvidia/vllm",
                model="/home/nvidia/vllm/org/model",
                environment=build_rank_environment(
                    mine,
                    variables,
                    cluster="default",
                    hf_home="/models",
                    model="/models/org/model",
                    engine=runs.environment,
                    executor=executor,
                ),
            )
        )
    made = render_deployment(
        "default",
        nodes,
        tp=hosts // copies,
        pp=1,
        dp=copies,
        contents=["commit"],
        executor=executor,
    )
    return made, made.files


def executed(script: str) -> list[str]:
    """Return the words that a rendered script execs at its end."""
    return shlex.split(script.partition("\nexec ")[2].replace("\\\n", " "))


def option(command: list[str] | tuple[str, ...], name: str) -> list[str]:
    """Return the values of every ``--name=value`` among the words."""
    found = (word.partition("=") for word in command if word.startswith(f"--{name}="))
    return [value for _, _, value in found]


def info(**changes: Any) -> dict[str, Any]:
    """Return what `onhost/containers.py` reports of a daemon: `docker info` of the lab's Docker."""
    result = json.loads(INFO)
    return {"info": {**result, **changes}, "free": 10**12, "hook": False, "cdi": False}


# `docker info --format '{{json .}}'`, Debian's Docker 20.10.24 with client 28.2.2, shortened
INFO = """{"Driver": "overlay2", "CgroupDriver": "cgroupfs", "CgroupVersion": "1",
"DockerRootDir": "/var/lib/docker", "ServerVersion": "20.10.24+dfsg1", "Runtimes":
{"io.containerd.runc.v2": {"path": "runc"}, "runc": {"path": "runc"}}, "DefaultRuntime": "runc",
"CDISpecDirs": null, "Architecture": "x86_64",
"ClientInfo": {"Debug": false, "Version": "28.2.2", "DefaultAPIVersion": "1.50"}}"""
