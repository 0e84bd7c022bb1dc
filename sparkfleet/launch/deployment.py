"""What is to run on each host of a cluster, as files; pure.

The rendered files are the deployment: the same files, weights and engine mean that nothing has to
be restarted, and a person can run them by hand.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkfleet.commands import folded
from sparkfleet.launch import declared
from sparkfleet.launch.engines import Container, Engine
from sparkfleet.launch.engines.container import DEPLOYMENT, START
from sparkfleet.links import EnvVar
from sparkfleet.recipes.settings import Settings
from sparkfleet.templating import render_template

RAY_SCRIPTS = {True: "ray-head.sh", False: "ray-worker.sh"}
SERVE_SCRIPT = "vllm-serve.sh"
NO_CARRY = "vllm-config/ray_non_carry_over_env_vars.json"
MANAGED = ("nccl.env", START, "ray-head.sh", "ray-worker.sh", SERVE_SCRIPT, NO_CARRY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One host's part: what runs there, where things are, and the environment of its rank.

    `address` is the fabric address that the group meets at; None in solo mode. `folder` is where
    the files of the deployment go, `weights` the expanded weights_dir, `model` the model's folder
    in it; all are the host's paths.
    """

    settings: Settings
    rank: int
    address: str | None
    engine: Engine
    folder: str
    weights: str
    model: str
    environment: tuple[EnvVar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The files of every host, and one hash over everything that makes them what they are."""

    cluster: str
    tp: int
    pp: int
    served_name: str
    port: int
    files: Mapping[str, Mapping[str, str]]  # host -> name -> text
    hash: str

    @property
    def uses_ray(self) -> bool:
        """Whether ranks on several hosts are joined by Ray."""
        return self.tp * self.pp > 1


def deploy(
    cluster: str, nodes: Sequence[Node], *, tp: int, pp: int, contents: Sequence[str]
) -> Deployment:
    """Render the deployment of `nodes`, in rank order, the head first.

    `contents` names what the files do not show: the weights' commit, the engine's versions.
    """
    head = nodes[0].settings
    files = {node.settings.host.name: _files(cluster, node, nodes[0], (tp, pp)) for node in nodes}
    hash_ = hash_of(files, contents)
    return Deployment(
        cluster=cluster,
        tp=tp,
        pp=pp,
        served_name=served_name(head),
        port=head.integer("vllm_port"),
        files={host: _labelled(own, hash_) for host, own in files.items()},
        hash=hash_,
    )


def served_name(settings: Settings) -> str:
    """Return the model name that clients send."""
    return settings.text("vllm_served_name") or settings.needed("vllm_model")


def hash_of(files: Mapping[str, Mapping[str, str]], contents: Sequence[str]) -> str:
    """Hash what runs; a comment that changed, such as where a value was set, restarts nothing."""
    bare = {
        host: {name: _without_comments(text) for name, text in own.items()}
        for host, own in files.items()
    }
    whole = json.dumps([bare, list(contents)], sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def _labelled(files: Mapping[str, str], hash_: str) -> dict[str, str]:
    """Put the hash into the labels of containers; it is the hash of files without it."""
    return {name: text.replace(DEPLOYMENT, hash_) for name, text in files.items()}


def _without_comments(text: str) -> str:
    lines = text.splitlines()
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("#"))


def _files(cluster: str, node: Node, head: Node, size: tuple[int, int]) -> dict[str, str]:
    ray = size[0] * size[1] > 1
    context = {
        "cluster": cluster,
        "host": node.settings.host.name,
        "rank": node.rank,
        **node.engine.context,
        "head_address": head.address if ray else None,
        "head_port": _ray_port(head),
        "environment": node.environment,
        "served_name": served_name(head.settings),
    }
    files = {
        name: render_template(f"{name}.j2", {**context, "command": folded(command)})
        for name, command in _commands(node, head, size).items()
    }
    if ray and node is head:
        files[NO_CARRY] = json.dumps(_own_names(node), indent=1) + "\n"
    return {**files, **node.engine.files}


def _commands(node: Node, head: Node, size: tuple[int, int]) -> dict[str, tuple[str, ...]]:
    """Return the files that are rendered for `node`, each with the command that it execs."""
    ray = size[0] * size[1] > 1
    commands: dict[str, tuple[str, ...]] = {"nccl.env": ()}
    if isinstance(node.engine, Container):
        commands[START] = ()
    if ray:
        words = ray_command(node, head)
        commands[RAY_SCRIPTS[node is head]] = node.engine.wrap("ray", words, {})
    if node is head:
        words = serve_command(node, size)
        variables = _ray_variables(node) if ray else {}
        commands[SERVE_SCRIPT] = node.engine.wrap("serve", words, variables)
    return commands


def _ray_variables(head: Node) -> dict[str, str]:
    """Return what the server must know of Ray: where its head is, and what vLLM must not copy."""
    config = f"{head.folder}/{NO_CARRY.partition('/')[0]}"
    return {
        "RAY_ADDRESS": f"{head.address}:{_ray_port(head)}",
        "VLLM_CONFIG_ROOT": head.engine.inside(config),
    }


def _ray_port(head: Node) -> int:
    return head.settings.integer("ray_port")


def ray_command(node: Node, head: Node) -> tuple[str, ...]:
    """Return the command that starts Ray on `node` and stays until it ends.

    A Spark has one GPU, so Ray is told so: it then also works where Ray cannot count GPUs.
    """
    settings = node.settings
    place = (
        ("--head", f"--port={_ray_port(head)}", "--include-dashboard=false")
        if node is head
        else (f"--address={head.address}:{_ray_port(head)}",)
    )
    return (
        node.engine.program("ray"),
        "start",
        *place,
        "--block",
        f"--node-ip-address={node.address}",
        f"--node-manager-port={settings.integer('ray_node_manager_port')}",
        f"--object-manager-port={settings.integer('ray_object_manager_port')}",
        f"--min-worker-port={settings.integer('ray_worker_port_min')}",
        f"--max-worker-port={settings.integer('ray_worker_port_max')}",
        f"--num-cpus={settings.integer('ray_cpus')}",
        "--num-gpus=1",
        f"--object-store-memory={settings.size('ray_object_store_memory')}",
        "--disable-usage-stats",
    )


def serve_command(node: Node, size: tuple[int, int]) -> tuple[str, ...]:
    """Return the command that serves the model from the head."""
    if node.engine.own_program:
        return node.engine.own_program
    settings, (tp, pp) = node.settings, size
    group: tuple[str, ...] = (f"--tensor-parallel-size={tp}",)
    if pp > 1:
        group += (f"--pipeline-parallel-size={pp}",)
    if tp * pp > 1:
        group += ("--distributed-executor-backend=ray",)
    return (
        node.engine.program("vllm"),
        "serve",
        node.engine.inside(node.model),
        f"--served-model-name={served_name(settings)}",
        "--host=0.0.0.0",
        f"--port={settings.integer('vllm_port')}",
        *group,
        *declared.words(settings, node.engine.inside(node.weights), node.engine.inside(node.model)),
    )


def _own_names(node: Node) -> list[str]:
    """Names that vLLM must not copy to Ray's workers: each host exported its own before Ray began.

    Without this list the head's NCCL_SOCKET_IFNAME replaces the worker's (facts, row 88).
    """
    return sorted({"VLLM_CONFIG_ROOT", *(variable.name for variable in node.environment)})
