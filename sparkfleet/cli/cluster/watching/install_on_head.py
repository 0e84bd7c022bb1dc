"""`cluster.enable --on-head`: installs sparkfleet on the head, so that it watches its cluster.

The head gets a folder with sparkfleet and its libraries, a folder with the inventory, and a key
with which it reaches the other hosts. Nothing is downloaded: this machine sends everything.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sparkfleet.cli.cluster.watching.own_starts import read_own_start
from sparkfleet.cli.context import ClusterSession
from sparkfleet.cli.options import Options
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.command_name import name_command
from sparkfleet.commands import Command
from sparkfleet.errors import LaunchError
from sparkfleet.launch.watching.installation_archive import (
    COMPILED,
    PACKAGES,
    Bundle,
    pack_bundle,
    read_copied_text,
    read_inventory_files,
)
from sparkfleet.model import Host
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.known_hosts import check_public_key
from sparkfleet.resources import PACKAGE, expand_home, resolve_path
from sparkfleet.values import convert_choice, convert_integer, convert_string, convert_text

PROGRAM = "host/install"
BASE = ".local/share/sparkfleet"  # below the home of the user
OLDEST = (3, 11)  # Python
OVERLAY = "on-head.yml"
RECIPES = "playbooks/recipes"  # below the current folder
UNPACK_LIMIT = 300.0  # seconds
RUN_LIMIT = 120.0  # seconds for a look of sparkfleet there
SERVICE_LIMIT = 260.0  # seconds for a task that may stop the service there, longer than it waits
MIB = 1 << 20
FAILED = "sparkfleet on the head"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadPlan:
    """The archive for the head and its folder, and the folder and files of the inventory."""

    bundle: Bundle
    app: str
    project: str
    files: Mapping[str, str]
    inventories: tuple[str, ...]

    def command(self, task: str, *words: str) -> Command:
        """Return the command that runs a task of sparkfleet there, in its folder."""
        given = [word for name in self.inventories for word in ("--inventory", name)]
        script = 'cd "$1" && shift && exec "$@"'
        python = ("env", f"PYTHONPATH={self.app}", "python3", "-m", "sparkfleet")
        return Command(argv=("sh", "-c", script, "sh", self.project, *python, task, *given, *words))


def enable_on_head(session: ClusterSession, options: Options) -> int:
    """Install sparkfleet on the head and start its watcher, or show that with --check; return 0."""
    head = session.context.cluster.head
    connection = session.pool.connect(head)
    plan = plan_head(session, connection)
    _print_plan(session, plan)
    if options.check:
        return 0
    _install(connection, plan)
    _grant_access(session, connection)
    words = ("--cluster", session.context.cluster.name)
    look = connection.run(plan.command("cluster.watch", "--once", *words), timeout=RUN_LIMIT)
    if look.returncode not in (0, 2):
        raise LaunchError(
            f"{FAILED} cannot check the cluster: {look.text.strip()}\n{look.stderr.strip()}",
            host=head.name,
            hint="if a host was not reached, check that ssh works from the head to it",
        )
    _run_task(connection, plan.command("cluster.enable", *words))
    return 0


def disable_on_head(session: ClusterSession, options: Options) -> int:
    """Remove the watcher of the head, or show what would be; return 0."""
    connection = session.pool.connect(session.context.cluster.head)
    plan = plan_head(session, connection)
    words = ("--cluster", session.context.cluster.name, *(["--check"] if options.check else ()))
    _run_task(connection, plan.command("cluster.disable", *words))
    return 0


def plan_head(session: ClusterSession, connection: Connection) -> HeadPlan:
    """Return what the head needs; raises LaunchError for a head that cannot run sparkfleet."""
    cluster = session.context.cluster
    request = {"do": "probe", "modules": list(COMPILED.values())}
    found = connection.query(PROGRAM, request, _parse_probe)
    version = found["version"]
    _check_python(connection.host.name, version)
    same = version == sys.version_info[:2] and found["machine"] == platform.machine()
    if not same and found["missing"]:
        raise LaunchError(
            f"its Python {version[0]}.{version[1]} lacks {', '.join(found['missing'])}, and the "
            f"libraries of this machine ({platform.machine()}, Python {sys.version_info[0]}."
            f"{sys.version_info[1]}) do not run there",
            host=connection.host.name,
            hint="on that host: sudo apt-get install -y "
            + " ".join(PACKAGES[name] for name in found["missing"]),
        )
    bundle = pack_bundle(compiled=same)
    recipes = dict(_read_recipes(session))
    files = {**dict(read_inventory_files(session.context.files)), **recipes}
    base = f"{found['home']}/{BASE}"
    return HeadPlan(
        bundle=bundle,
        app=f"{base}/app-{bundle.sha256[:16]}",
        project=f"{base}/watch-{cluster.name}",
        files={**files, OVERLAY: write_overlay(cluster.head, cluster.hosts)},
        inventories=(*(Path(name).name for name in session.context.files), OVERLAY),
    )


def write_overlay(head: Host, hosts: tuple[Host, ...]) -> str:
    """Return the inventory that differs on the head: itself is local, the others are near.

    Keys, known_hosts and jump hosts of this machine do not exist there.
    """
    ours = ("ansible_ssh_private_key_file", "ansible_ssh_common_args", "ansible_ssh_extra_args")
    content: dict[str, dict[str, Any]] = {head.name: {"ansible_connection": "local"}}
    for host in hosts:
        if host is not head:
            content[host.name] = {name: None for name in ours if host.get(name) is not None}
        if _find_recipe_file(host):
            content[host.name]["vllm_recipe"] = Path(str(host.get("vllm_recipe"))).stem
    return yaml.safe_dump({"all": {"hosts": content}}, sort_keys=False)


def _check_python(host: str, version: tuple[int, ...]) -> None:
    if version < OLDEST:
        raise LaunchError(
            f"python3 is {version[0]}.{version[1]}; sparkfleet needs {OLDEST[0]}.{OLDEST[1]}",
            host=host,
            hint=f"watch from a control machine: {name_command('cluster.enable')} there",
        )


def _read_recipes(session: ClusterSession) -> Iterator[tuple[str, str]]:
    """Yield the project's recipes, the inventory's, and that of the last start from this machine.

    There they are found by name, as files of the catalogue are.
    """
    started = read_own_start(session.context.cluster.name)
    named = [_find_recipe_file(session.context.cluster.head)]
    named += [Path(started.recipe_file)] if started and started.recipe_file else []
    for path in (*sorted((Path.cwd() / RECIPES).glob("*.yml")), *filter(None, named)):
        if path.is_file() and not resolve_path(path).is_relative_to(PACKAGE.parent / "playbooks"):
            yield f"{RECIPES}/{path.stem}.yml", read_copied_text(path)


def _find_recipe_file(host: Host) -> Path | None:
    """Return the file that `vllm_recipe` is, None for a name."""
    value = host.get("vllm_recipe")
    path = expand_home(str(value)) if value else None
    return path if path is not None and path.is_file() else None


def _print_plan(session: ClusterSession, plan: HeadPlan) -> None:
    head, *others = session.context.cluster.hosts
    size = f"{len(plan.bundle.archive) / MIB:.0f} MiB"
    print_lines(
        f"{head.name}: {plan.app}: sparkfleet and {len(plan.bundle.libraries)} libraries, {size}",
        f"{head.name}: {plan.project}: {', '.join(plan.files)}",
        f"{head.name}: the SSH key of its user, a new one where there is none"
        f" ({', '.join(host.name for host in others)} will accept it)"
        if others
        else f"{head.name}: no other host to reach",
        f"{head.name}: {name_command('cluster.enable')} in that folder",
    )


def _parse_probe(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "version": (convert_integer(answer["version"][0]), convert_integer(answer["version"][1])),
        "machine": convert_string(answer["machine"]),
        "missing": [convert_choice(name, PACKAGES) for name in answer["missing"]],
        "home": convert_text(answer["home"]),
    }


def _install(connection: Connection, plan: HeadPlan) -> None:
    archive = plan.bundle.archive
    request = {
        "do": "unpack",
        "folder": plan.app,
        "size": len(archive),
        "sha256": plan.bundle.sha256,
    }
    connection.run_program(PROGRAM, request, payload=[archive], timeout=UNPACK_LIMIT)
    connection.run_program(
        PROGRAM, {"do": "write", "folder": plan.project, "files": dict(plan.files)}
    )


def _grant_access(session: ClusterSession, head: Connection) -> None:
    """Let the head reach the other hosts: its key there, and their host keys in its known_hosts.

    Both go over connections whose own host keys were verified.
    """
    others = [host for host in session.context.cluster.hosts if host is not head.host]
    if not others:
        return
    key = head.query(PROGRAM, {"do": "key"}, _parse_key)

    def grant(connection: Connection) -> list[str]:
        connection.run_program(PROGRAM, {"do": "authorize", "line": key})
        keys = connection.query(PROGRAM, {"do": "host_keys"}, _parse_host_keys)
        host = connection.host
        port = int(host.get("ansible_port") or 22)
        name = host.address if port == 22 else f"[{host.address}]:{port}"
        return [f"{name} {entry}" for entry in keys]

    lines = session.pool.map(grant, others).all()
    known = [line for entries in lines.values() for line in entries]
    head.run_program(PROGRAM, {"do": "trust", "lines": known})


def _parse_key(answer: Mapping[str, Any]) -> str:
    return check_public_key(answer["key"])


def _parse_host_keys(answer: Mapping[str, Any]) -> list[str]:
    return [check_public_key(entry) for entry in answer["keys"]]


def _run_task(connection: Connection, command: Command) -> None:
    """Run a task of sparkfleet on the head and print what it prints; raises LaunchError."""
    result = connection.run(command, timeout=SERVICE_LIMIT)
    host = connection.host.name
    if result.returncode:
        text = result.stderr.strip() or result.text.strip()
        raise LaunchError(f"{FAILED}: {text}", host=host)
    print_lines(*(f"{host}: {line}" for line in result.text.splitlines()))
