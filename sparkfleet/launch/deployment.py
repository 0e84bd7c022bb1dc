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
from sparkfleet.launch.engines import Container
from sparkfleet.launch.engines.container import DEPLOYMENT, START
from sparkfleet.launch.executor import Executor
from sparkfleet.launch.node import Group, Node
from sparkfleet.launch.programs import ray_command, ray_port, serve_command, served_name
from sparkfleet.templating import render_template

__all__ = ["Deployment", "Group", "Node", "deploy", "hash_of"]

RAY_SCRIPTS = {True: "ray-head.sh", False: "ray-worker.sh"}
SERVE_SCRIPT = "vllm-serve.sh"
NO_CARRY = "vllm-config/ray_non_carry_over_env_vars.json"
MANAGED = ("nccl.env", START, "ray-head.sh", "ray-worker.sh", SERVE_SCRIPT, NO_CARRY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The files of every host, and one hash over everything that makes them what they are.

    `per_host` names the variables of the ranks' environment that differ between hosts,
    `addresses` are those at which the hosts meet.
    """

    cluster: str
    tp: int
    pp: int
    served_name: str
    port: int
    files: Mapping[str, Mapping[str, str]]  # host -> name -> text
    hash: str
    executor: Executor = Executor.RAY
    per_host: frozenset[str] = frozenset()
    addresses: tuple[str, ...] = ()

    def roles(self, *, head: bool) -> tuple[str, ...]:
        """Return what runs on the head, or on any other host, in the order of its start."""
        if self.executor is Executor.RAY:
            return ("ray", "serve") if head else ("ray",)
        return ("serve",)


def deploy(
    cluster: str,
    nodes: Sequence[Node],
    *,
    tp: int,
    pp: int,
    contents: Sequence[str],
    executor: Executor = Executor.RAY,
) -> Deployment:
    """Render the deployment of `nodes`, in rank order, the head first.

    `executor` joins the ranks of several hosts. `contents` names what the files do not show: the
    weights' commit, the engine's versions.
    """
    head = nodes[0].settings
    group = Group(tp=tp, pp=pp, executor=executor if tp * pp > 1 else Executor.UNI)
    files = {node.settings.host.name: _files(cluster, node, nodes[0], group) for node in nodes}
    hash_ = hash_of(files, contents)
    return Deployment(
        cluster=cluster,
        tp=tp,
        pp=pp,
        executor=group.executor,
        per_host=_per_host(nodes),
        addresses=tuple(node.address for node in nodes if node.address),
        served_name=served_name(head),
        port=head.integer("vllm_port"),
        files={host: _labelled(own, hash_) for host, own in files.items()},
        hash=hash_,
    )


def _per_host(nodes: Sequence[Node]) -> frozenset[str]:
    seen = [{variable.name: variable.value for variable in node.environment} for node in nodes]
    names = {name for own in seen for name in own}
    return frozenset(name for name in names if len({own.get(name) for own in seen}) > 1)


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
    lines = text.split("\n")  # a line of the shell; Python knows more line ends
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("#"))


def _files(cluster: str, node: Node, head: Node, group: Group) -> dict[str, str]:
    ray = group.executor is Executor.RAY
    context = {
        "cluster": cluster,
        "host": node.settings.host.name,
        "rank": node.rank,
        "is_head": node is head,
        **node.engine.context,
        "ray_address": head.address if ray else None,
        "ray_port": ray_port(head),
        "environment": node.environment,
        "served_name": served_name(head.settings),
    }
    files = {
        name: render_template(f"{name}.j2", {**context, "command": folded(command)})
        for name, command in _commands(node, head, group).items()
    }
    if ray and node is head:
        files[NO_CARRY] = json.dumps(_own_names(node), indent=1) + "\n"
    return {**files, **node.engine.files}


def _commands(node: Node, head: Node, group: Group) -> dict[str, tuple[str, ...]]:
    """Return the files that are rendered for `node`, each with the command that it execs."""
    ray = group.executor is Executor.RAY
    commands: dict[str, tuple[str, ...]] = {"nccl.env": ()}
    if isinstance(node.engine, Container):
        commands[START] = ()
    if ray:
        words = ray_command(node, head)
        commands[RAY_SCRIPTS[node is head]] = node.engine.wrap("ray", words, {})
    if node is head or not ray:
        words = serve_command(node, head, group)
        variables = _ray_variables(node) if ray else {}
        commands[SERVE_SCRIPT] = node.engine.wrap("serve", words, variables)
    return commands


def _ray_variables(head: Node) -> dict[str, str]:
    """Return what the server must know of Ray: where its head is, and what vLLM must not copy."""
    config = f"{head.folder}/{NO_CARRY.partition('/')[0]}"
    return {
        "RAY_ADDRESS": f"{head.address}:{ray_port(head)}",
        "VLLM_CONFIG_ROOT": head.engine.inside(config),
    }


def _own_names(node: Node) -> list[str]:
    """Names that vLLM must not copy to Ray's workers: each host exported its own before Ray began.

    Without this list the head's NCCL_SOCKET_IFNAME replaces the worker's (facts, row 88).
    """
    return sorted({"VLLM_CONFIG_ROOT", *(variable.name for variable in node.environment)})
