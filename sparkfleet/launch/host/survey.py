"""The state of a deployment on a host: its files, its processes, its engine."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sparkfleet.errors import LaunchError
from sparkfleet.launch.host import memory_guard
from sparkfleet.launch.host.daemon import Daemon, parse_daemon
from sparkfleet.launch.host.deployment_record import (
    STATE,
    DeploymentRecord,
    PreviousDeployment,
    RunProgress,
    parse_deployment_record,
    parse_run_progress,
)
from sparkfleet.launch.host.engine_kind import NATIVE, read_engine_kind
from sparkfleet.launch.host.file_names import MANAGED_FILES, SERVE_SCRIPT
from sparkfleet.launch.host.image import ContainerImage, Probe, parse_image
from sparkfleet.launch.host.nccl_library import NcclLibrary
from sparkfleet.launch.host.port_holders import (
    PORTS,
    parse_holders,
    parse_published_ports,
    parse_sockets,
)
from sparkfleet.model import EMPTY
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.values import convert_count, convert_list, convert_mapping, convert_string

PACKAGES = ("vllm", "ray", "torch", "transformers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The answer of `onhost/deployment/processes.py` or `onhost/deployment/containers.py`.

    `hash` is of the deployment that was started last and not stopped since; `dead` are its roles
    that no longer run; `engine` maps packages to versions, None if no environment is configured.
    With containers, `processes` are their clients, and `sockets` the inodes of the sockets that
    they hold, None where that is unknown; `published` maps ports to the containers that publish
    them, and `holders` the inodes of sockets to other containers that hold them.
    """

    home: str
    folder: str
    files: Mapping[str, str | None]
    hash: str | None
    roles: Mapping[str, str]  # role -> script
    dead: tuple[str, ...]
    processes: tuple[Mapping[str, Any], ...]
    engine: Mapping[str, Any] | None
    guard: memory_guard.Guard | None = None
    cli: str = ""  # engine of the containers of the last start
    user: str = ""  # uid:gid
    daemon: Daemon | None = None
    containers: tuple[Mapping[str, str], ...] = ()
    sockets: frozenset[str] | None = frozenset()
    published: Mapping[int, str] = field(default_factory=dict)
    holders: Mapping[str, str] = field(default_factory=dict)
    image: ContainerImage | None = None  # image to run; `image_name` is set even if absent
    image_name: str = ""
    base: ContainerImage | None = None  # image from which `image` is derived
    cache_filesystem: str = ""  # of engine_cache_dir; "" without containers
    nccl: NcclLibrary | None = None  # the host's NCCL, if nccl_library is set
    pids: Mapping[str, int] = field(default_factory=lambda: EMPTY)  # role -> process of its script
    about: DeploymentRecord = field(default_factory=DeploymentRecord)  # running deployment
    state: RunProgress | None = None  # of a run that is not finished, or was killed

    @property
    def interrupted(self) -> bool:
        """Whether a run was killed half-way; under the lock, that run is no longer active."""
        return self.state is not None and not self.state.finished

    @property
    def last_good(self) -> PreviousDeployment:
        """The last deployment that passed its smoke test: a failed run must restore it."""
        if self.state is not None and not self.state.finished:
            return self.state.previous
        return PreviousDeployment(
            files=self.files, hash=self.hash, roles=self.roles, cli=self.cli, about=self.about
        )

    @property
    def running_summary(self) -> str:
        """The number of running parts, as "2 containers" or "5 processes"; "" if nothing is."""
        noun = "container" if self.containers else "process"
        count = len(self.containers or self.processes)
        plural = "s" if self.containers else "es"
        return f"{count} {noun}{plural if count > 1 else ''}" if count else ""

    @property
    def probe(self) -> Probe | None:
        """Contents of the engine; None for an image that has not been inspected yet."""
        if self.engine is None:
            return self.image.probe if self.image else None
        packages = {name: str(self.engine[name]) for name in PACKAGES if self.engine.get(name)}
        nodes = bool(self.engine.get("nodes"))
        return Probe(packages=packages, programs=tuple(packages), nodes=nodes)

    @property
    def runs(self) -> bool:
        """Whether all roles of the last start are running."""
        return self.hash is not None and not self.dead

    def expand(self, path: str) -> str:
        """Return `path` with a leading ``~`` replaced by this host's home."""
        return self.home + path[1:] if path == "~" or path.startswith("~/") else path


def survey_host(connection: Connection, settings: Settings, cluster: str) -> Survey:
    """Return the state of one host; read-only."""
    engine = read_engine_kind(settings)
    request = {
        "do": "survey",
        "cluster_dir": settings.cluster_dir,
        "cluster": cluster,
        "files": [*MANAGED_FILES, memory_guard.FILE, STATE],
    }
    if engine == NATIVE:
        venv = settings.text("engine_venv") or None
        return connection.query("deployment/processes", {**request, "venv": venv}, parse_survey)
    return connection.query(
        "deployment/containers",
        {
            **request,
            **build_image_request(settings),
            "ports": read_ports(settings),
            "cache": settings.text("engine_cache_dir"),
        },
        partial(parse_survey, cli=engine),
    )


def split_serve_script(survey: Survey, host: str) -> list[str]:
    """Return the words of the script that serves on `host`; empty where there is none.

    Raises LaunchError for a script that no shell can read.
    """
    script = survey.files.get(SERVE_SCRIPT) or ""
    try:
        return shlex.split(script.replace("\\\n", ""), comments=True)
    except ValueError as error:
        raise LaunchError(
            f"{survey.folder}/{SERVE_SCRIPT} is damaged: {error}",
            host=host,
            hint="show what differs: {task:cluster.drift}; write it again: {task:cluster.up}",
        ) from error


def read_ports(settings: Settings) -> list[int]:
    """Return the ports that a deployment may listen on."""
    return [settings.integer(name) for name in PORTS]


def build_image_request(settings: Settings) -> dict[str, Any]:
    """Return the part of a request that selects the image to run."""
    return {
        "cli": read_engine_kind(settings),
        "image": settings.text("engine_image") or None,
        "pip": list(settings.value("engine_pip") or ()),
    }


def parse_images(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the image fields of a survey."""
    image = answer.get("derived") or answer.get("image") or {}
    return {
        "image": parse_image(image),
        "image_name": convert_string(image.get("name", "")),
        "base": parse_image(answer.get("image")),
    }


def parse_survey(answer: Mapping[str, Any], *, cli: str = "") -> Survey:
    """Return the survey in the program's `answer`; `cli` names the engine of containers.

    Raises InvalidValueError or LookupError.
    """
    files = dict(answer["files"])
    guard, state = (_text(files.pop(name, None)) for name in (memory_guard.FILE, STATE))
    processes = tuple(map(convert_mapping, convert_list(answer["processes"])))
    alive = {(convert_count(process["pid"]), process["began"]) for process in processes}
    engine = answer["engine"]
    return Survey(
        home=str(answer["home"]),
        folder=str(answer["folder"]),
        files={name: _text(files[name]) for name in MANAGED_FILES if name in files},
        processes=processes,
        engine=None if engine is None else convert_mapping(engine),
        guard=memory_guard.parse_guard(guard),
        state=parse_run_progress(state),
        user=convert_string(answer.get("user", "")),
        daemon=parse_daemon(cli, answer["daemon"]) if cli else None,
        containers=tuple(map(convert_mapping, convert_list(answer.get("containers", [])))),
        cache_filesystem=convert_string(answer.get("cache_filesystem", "")),
        sockets=parse_sockets(answer.get("sockets", ())),
        published=parse_published_ports(str(answer.get("published", ""))),
        holders=parse_holders(answer.get("holders", {})),
        **_parse_record(answer["record"] or {"hash": None, "roles": {}}, alive),
        **parse_images(answer),
    )


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _parse_record(record: Mapping[str, Any], alive: set[tuple[int, int]]) -> dict[str, Any]:
    """Return the fields of a survey that the last start recorded."""
    roles = record["roles"]
    hash_ = record["hash"]
    return {
        "hash": None if hash_ is None else convert_string(hash_),
        "roles": {name: str(role["script"]) for name, role in roles.items()},
        "pids": {name: int(role["pid"]) for name, role in roles.items()},
        "dead": tuple(
            name for name, role in roles.items() if (role["pid"], role["began"]) not in alive
        ),
        "cli": convert_string(record.get("cli") or ""),
        "about": parse_deployment_record(record.get("about")),
    }
