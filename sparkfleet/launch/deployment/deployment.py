"""The files that a deployment needs on each host of a cluster; pure.

The rendered files are the deployment: nothing is restarted while files, weights and engine stay
the same, and the scripts also work when run by hand.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkfleet.commands import quote_folded
from sparkfleet.launch.deployment.commands import (
    build_ray_command,
    build_serve_command,
    find_aliases,
    find_pack_strategy,
    find_served_name,
    read_ray_port,
)
from sparkfleet.launch.deployment.executor import Executor
from sparkfleet.launch.deployment.node import DeploymentNode, ParallelConfig
from sparkfleet.launch.engines.container import HASH_PLACEHOLDER, ContainerEngine
from sparkfleet.launch.host.file_names import (
    ENVIRONMENT,
    NO_CARRY,
    RAY_HEAD_SCRIPT,
    RAY_TOKEN,
    RAY_WORKER_PROGRAM,
    RAY_WORKER_SCRIPT,
    SERVE_SCRIPT,
    START_SCRIPT,
)
from sparkfleet.onhost.shared.endpoint_url import ALL_INTERFACES
from sparkfleet.templating import render_template

PACK_STRATEGY = "VLLM_RAY_DP_PACK_STRATEGY"
# Variables of the server that must not reach Ray's workers, as those of each rank must not.
NEVER_CARRIED = ("VLLM_CONFIG_ROOT", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The files of every host, and one hash over all their inputs.

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
    listens_on: str = ALL_INTERFACES
    executor: Executor = Executor.RAY
    dp: int = 1
    per_host: frozenset[str] = frozenset()
    addresses: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()  # further names of the model

    def roles(self, *, head: bool) -> tuple[str, ...]:
        """Return the roles of the head, or of any other host, in start order."""
        if self.executor is Executor.RAY:
            return ("ray", "serve") if head else ("ray",)
        return ("serve",)


def render_deployment(
    cluster: str,
    nodes: Sequence[DeploymentNode],
    *,
    tp: int,
    pp: int,
    contents: Sequence[str],
    executor: Executor = Executor.RAY,
    dp: int = 1,
) -> Deployment:
    """Render the deployment of `nodes`, in rank order, the head first.

    `executor` joins the ranks of several hosts. `contents` lists inputs outside the files: the
    commit of the weights, the versions of the engine.
    """
    head = nodes[0].settings
    joined = executor if tp * pp * dp > 1 else Executor.UNI
    group = ParallelConfig(tp=tp, pp=pp, dp=dp, executor=joined)
    files = {
        node.settings.host.name: _render_node_files(cluster, node, nodes[0], group)
        for node in nodes
    }
    hash_ = hash_deployment(files, contents)
    return Deployment(
        cluster=cluster,
        tp=tp,
        pp=pp,
        dp=dp,
        executor=group.executor,
        per_host=_find_per_host_variables(nodes),
        addresses=tuple(node.address for node in nodes if node.address),
        served_name=find_served_name(head),
        aliases=find_aliases(head),
        listens_on=head.text("vllm_host"),
        port=head.integer("vllm_port"),
        files={host: _insert_hash(texts, hash_) for host, texts in files.items()},
        hash=hash_,
    )


def _find_per_host_variables(nodes: Sequence[DeploymentNode]) -> frozenset[str]:
    environments = [
        {variable.name: variable.value for variable in node.environment} for node in nodes
    ]
    names = {name for environment in environments for name in environment}
    return frozenset(
        name for name in names if len({environment.get(name) for environment in environments}) > 1
    )


def hash_deployment(files: Mapping[str, Mapping[str, str]], contents: Sequence[str]) -> str:
    """Return a hash of the deployment; comments do not count, so editing one restarts nothing."""
    bare = {
        host: {name: strip_comments(text) for name, text in texts.items()}
        for host, texts in files.items()
    }
    whole = json.dumps([bare, list(contents)], sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def _insert_hash(files: Mapping[str, str], hash_: str) -> dict[str, str]:
    """Insert the hash into the labels of containers; it is computed before this."""
    return {name: text.replace(HASH_PLACEHOLDER, hash_) for name, text in files.items()}


def strip_comments(text: str) -> str:
    """Return a rendered file without comments and empty lines, which have no effect."""
    lines = text.split("\n")  # as the shell splits lines; str.splitlines() knows more line ends
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("#"))


def _render_node_files(
    cluster: str, node: DeploymentNode, head: DeploymentNode, group: ParallelConfig
) -> dict[str, str]:
    ray = group.executor is Executor.RAY
    context = {
        "cluster": cluster,
        "host": node.settings.host.name,
        "rank": node.rank,
        "is_head": node is head,
        **node.engine.context,
        "ray_address": head.address if ray else None,
        "ray_port": read_ray_port(head),
        "pack_strategy": find_pack_strategy(group) if ray else "",
        "ray_token_file": locate_ray_token(node) if ray else "",
        "environment": node.environment,
        "served_name": find_served_name(head.settings),
    }
    files = {
        name: render_template(f"{name}.j2", {**context, "command": quote_folded(command)})
        for name, command in _build_commands(node, head, group).items()
    }
    if ray and node is head:
        files[NO_CARRY] = json.dumps(_list_non_carried_variables(node), indent=1) + "\n"
    return {**files, **node.engine.files}


def _build_commands(
    node: DeploymentNode, head: DeploymentNode, group: ParallelConfig
) -> dict[str, tuple[str, ...]]:
    """Return the files to render for `node`, each with the command that it execs."""
    ray = group.executor is Executor.RAY
    commands: dict[str, tuple[str, ...]] = {ENVIRONMENT: ()}
    if isinstance(node.engine, ContainerEngine):
        commands[START_SCRIPT] = ()
    if ray:
        argv = build_ray_command(node, head)
        script = RAY_HEAD_SCRIPT if node is head else RAY_WORKER_SCRIPT
        if node is not head and not isinstance(node.engine, ContainerEngine):
            commands[RAY_WORKER_PROGRAM] = ()
            address = f"{head.address}:{read_ray_port(head)}"
            program = f"{node.folder}/{RAY_WORKER_PROGRAM}"
            argv = (node.engine.program("python"), program, address, *argv)
        commands[script] = node.engine.wrap("ray", argv, {})
    if node is head or not ray:
        argv = build_serve_command(node, head, group)
        variables = _build_ray_variables(node, group) if ray else {}
        commands[SERVE_SCRIPT] = node.engine.wrap("serve", argv, variables)
    return commands


def locate_ray_token(node: DeploymentNode) -> str:
    """Return the path of Ray's token as the node's ranks see it, "" if the user sets `RAY_AUTH_*`.

    Ray lets in only those that have it (https://docs.ray.io/en/latest/ray-security/token-auth.html,
    since Ray 2.52; earlier ones ignore it).
    """
    if any(variable.name.startswith("RAY_AUTH_") for variable in node.environment):
        return ""
    return node.engine.inside(f"{node.folder}/{RAY_TOKEN}")


def _build_ray_variables(head: DeploymentNode, group: ParallelConfig) -> dict[str, str]:
    """Return the variables of the server: Ray's address, and the list of variables to keep."""
    config = f"{head.folder}/{NO_CARRY.partition('/')[0]}"
    variables = {
        "RAY_ADDRESS": f"{head.address}:{read_ray_port(head)}",
        "VLLM_CONFIG_ROOT": head.engine.inside(config),
    }
    if strategy := find_pack_strategy(group):
        variables[PACK_STRATEGY] = strategy
    return variables


def _list_non_carried_variables(node: DeploymentNode) -> list[str]:
    """Return the variables that vLLM must not copy to Ray's workers: each host exports its own.

    Without this list the head's NCCL_SOCKET_IFNAME replaces that of the workers
    (spark-arena/sparkrun#135).
    """
    return sorted({*NEVER_CARRIED, *(variable.name for variable in node.environment)})
