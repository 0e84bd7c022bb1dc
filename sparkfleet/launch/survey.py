"""What of a deployment is on a host: its files, its processes, its engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkfleet.launch import guards
from sparkfleet.launch.deployment import MANAGED
from sparkfleet.launch.engines import NATIVE, kind
from sparkfleet.launch.engines.daemon import Daemon
from sparkfleet.launch.engines.daemon import parse as parse_daemon
from sparkfleet.launch.images.image import Image, Probe
from sparkfleet.launch.images.image import parse as parse_image
from sparkfleet.launch.nccl import Library
from sparkfleet.launch.transaction import STATE, About, Previous, State, parse_about
from sparkfleet.launch.transaction import parse as parse_state
from sparkfleet.model import EMPTY
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.link import Link

PACKAGES = ("vllm", "ray", "torch", "transformers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What `onhost/deployment.py` or `onhost/containers.py` saw.

    `hash` is that of the deployment that was started last and not stopped since; `dead` are its
    roles that run no more; `engine` holds package versions by name, None where no environment is
    configured. With containers, `processes` are the clients that hold them.
    """

    home: str
    folder: str
    files: Mapping[str, str | None]
    hash: str | None
    roles: Mapping[str, str]  # role -> script
    dead: tuple[str, ...]
    processes: tuple[Mapping[str, Any], ...]
    engine: Mapping[str, Any] | None
    guard: guards.Guard | None = None
    cli: str = ""  # what held the containers of the last start
    user: str = ""  # uid:gid
    daemon: Daemon | None = None
    containers: tuple[Mapping[str, str], ...] = ()
    image: Image | None = None  # the one that shall run; `image_name` also where it is absent
    image_name: str = ""
    base: Image | None = None  # the one that it is derived from
    nccl: Library | None = None  # the host's NCCL, where the ranks shall take that
    pids: Mapping[str, int] = field(default_factory=lambda: EMPTY)  # role -> process of its script
    about: About = field(default_factory=About)  # what runs, as its start wrote it down
    state: State | None = None  # of a run that has not ended, or was killed

    @property
    def interrupted(self) -> bool:
        """Whether a run stopped in the middle; held under the lock, it is not running any more."""
        return self.state is not None and not self.state.finished

    @property
    def good(self) -> Previous:
        """The last deployment that was proven here: what a run that fails must bring back."""
        if self.state is not None and not self.state.finished:
            return self.state.previous
        return Previous(
            files=self.files, hash=self.hash, roles=self.roles, cli=self.cli, about=self.about
        )

    @property
    def running(self) -> str:
        """What of ours runs, as "2 containers" or "5 processes"; "" if nothing does."""
        noun = "container" if self.containers else "process"
        count = len(self.containers or self.processes)
        plural = "s" if self.containers else "es"
        return f"{count} {noun}{plural if count > 1 else ''}" if count else ""

    @property
    def probe(self) -> Probe | None:
        """What the engine consists of; None for an image that nobody has looked into yet."""
        if self.engine is None:
            return self.image.probe if self.image else None
        found = {name: str(self.engine[name]) for name in PACKAGES if self.engine.get(name)}
        nodes = bool(self.engine.get("nodes"))
        return Probe(packages=found, programs=tuple(found), nodes=nodes)

    @property
    def runs(self) -> bool:
        """Whether all roles of the last start are alive."""
        return self.hash is not None and not self.dead

    def expand(self, path: str) -> str:
        """Return `path` with a leading ``~`` replaced by this host's home."""
        return self.home + path[1:] if path == "~" or path.startswith("~/") else path


def ask_survey(link: Link, settings: Settings, cluster: str) -> Survey:
    """Look at one host; read-only."""
    engine = kind(settings)
    request = {
        "do": "survey",
        "cluster_dir": settings.cluster_dir,
        "cluster": cluster,
        "files": [*MANAGED, guards.FILE, STATE],
    }
    if engine == NATIVE:
        venv = settings.text("engine_venv") or None
        return parse(link.ask("deployment", {**request, "venv": venv}))
    return parse(link.ask("containers", {**request, **images_wanted(settings)}), cli=engine)


def images_wanted(settings: Settings) -> dict[str, Any]:
    """Return the part of a request that says which image shall run."""
    return {
        "cli": kind(settings),
        "image": settings.text("engine_image") or None,
        "pip": list(settings.value("engine_pip") or ()),
    }


def parse_images(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a survey that tell of images."""
    wanted = answer.get("derived") or answer.get("image") or {}
    return {
        "image": parse_image(wanted),
        "image_name": wanted.get("name", ""),
        "base": parse_image(answer.get("image")),
    }


def parse(answer: Mapping[str, Any], *, cli: str = "") -> Survey:
    """Return the survey in the program's `answer`; `cli` names the engine of containers."""
    files = dict(answer["files"])
    guard, state = (files.pop(name, None) for name in (guards.FILE, STATE))
    alive = {(process["pid"], process["began"]) for process in answer["processes"]}
    return Survey(
        home=answer["home"],
        folder=answer["folder"],
        files=files,
        processes=tuple(answer["processes"]),
        engine=answer["engine"],
        guard=guards.parse(guard),
        state=parse_state(state),
        user=answer.get("user", ""),
        daemon=parse_daemon(cli, answer["daemon"]) if cli else None,
        containers=tuple(answer.get("containers", ())),
        **_parse_record(answer["record"] or {"hash": None, "roles": {}}, alive),
        **parse_images(answer),
    )


def _parse_record(record: Mapping[str, Any], alive: set[tuple[int, int]]) -> dict[str, Any]:
    """Return the fields of a survey that the last start wrote down."""
    roles = record["roles"]
    return {
        "hash": record["hash"],
        "roles": {name: role["script"] for name, role in roles.items()},
        "pids": {name: role["pid"] for name, role in roles.items()},
        "dead": tuple(
            name for name, role in roles.items() if (role["pid"], role["began"]) not in alive
        ),
        "cli": record.get("cli") or "",
        "about": parse_about(record.get("about")),
    }
