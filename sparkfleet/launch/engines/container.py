"""Docker and Podman: each role is one container in the foreground of its script.

Its output is the role's log and its life the role's life. The environment is not on the command
line: the container's first program reads the same ``nccl.env`` as a native rank, so that a null
is truly unset there, whatever the image has baked in (facts 2.4, failure 81), and no secret shows
in `docker inspect`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkfleet.launch.engines.docker_options import BindMount
from sparkfleet.launch.engines.mods import Mod
from sparkfleet.launch.host.file_names import START_SCRIPT
from sparkfleet.links import EnvVar
from sparkfleet.onhost.shared import labels
from sparkfleet.report.visible import escape_line

WEIGHTS, FOLDER, CACHE = "/models", "/sparkfleet", "/cache"
HASH_PLACEHOLDER = (
    "@SPARKFLEET_DEPLOYMENT@"  # stands for the hash in the files that it is the hash of
)
# Where each compiler keeps what it made; the names are vLLM's, PyTorch's, Triton's, FlashInfer's,
# TileLang's and transformers' own. Node-local: on a shared disk they collide (failure 61).
CACHES = {
    "VLLM_CACHE_ROOT": "vllm",
    "TORCHINDUCTOR_CACHE_DIR": "torchinductor",
    "TRITON_CACHE_DIR": "triton",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "TILELANG_CACHE_DIR": "tilelang",
    "HF_MODULES_CACHE": "modules",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEngine:
    """How containers are run on one host.

    `image` is the name that the host's daemon knows; `cache` is a folder of the host; `options`
    are words that every container gets. With `shm_size` in bytes the containers of the host share
    memory of their own, else the host's. `group` tells that Ray joins several hosts. `own_program`
    is the image's, where that is what shall serve.
    """

    cli: str
    cluster: str
    image: str
    folder: str
    weights: str
    cache: str
    options: tuple[str, ...] = ()
    mounts: tuple[BindMount, ...] = ()
    extra: tuple[str, ...] = ()
    shm_size: int | None = None
    group: bool = False
    user: str = ""
    read_only: bool = True
    mods: tuple[Mod, ...] = ()
    own_program: tuple[str, ...] = ()

    @property
    def environment(self) -> tuple[EnvVar, ...]:
        """Where caches are kept, and what a user without an account in the image lacks."""
        kept = escape_line(f"kept in {self.cache} on the host")
        variables = [
            EnvVar(name=name, value=f"{CACHE}/{folder}", why=kept)
            for name, folder in CACHES.items()
        ]
        if self.user:
            why = escape_line(f"user {self.user} has no home in the image")
            variables += [
                EnvVar(name="HOME", value=CACHE, why=why),
                EnvVar(name="USER", value="sparkfleet", why=why),
            ]
        return tuple(variables)

    @property
    def context(self) -> Mapping[str, object]:
        """What the templates must know: the folder to make, and the mods to apply."""
        return {"venv": "", "cache": self.cache, "mods": self.mods, "inside": FOLDER}

    @property
    def files(self) -> Mapping[str, str]:
        """The files of the mods."""
        return {name: text for mod in self.mods for name, text in mod.files.items()}

    def inside(self, path: str) -> str:
        """Return where a container has what is at `path` of the host; `path` if nowhere."""
        for mount in self._mounts():
            if path == mount.source or path.startswith(f"{mount.source}/"):
                return mount.target + path[len(mount.source) :]
        return path

    def program(self, name: str) -> str:
        """Return `name`: the image's own PATH finds it."""
        return name

    def wrap(self, role: str, argv: Sequence[str], variables: Mapping[str, str]) -> tuple[str, ...]:
        """Return the words of `docker run` around `words`."""
        return (
            self.cli,
            "run",
            "--rm",
            "--pull=never",
            "--no-healthcheck",
            f"--name={self.name(role)}",
            f"--label={labels.CLUSTER_LABEL}={self.cluster}",
            f"--label={labels.ROLE_LABEL}={role}",
            f"--label={labels.DEPLOYMENT_LABEL}={HASH_PLACEHOLDER}",
            "--network=host",
            *self._pid_options(role),
            *self._memory_options(role),
            *self.options,
            *(argument for mount in self._mounts() for argument in mount.options),
            *self._tmp_options(role),
            *(f"--env={name}={value}" for name, value in variables.items()),
            *self.extra,
            "--entrypoint=bash",
            self.image,
            f"{FOLDER}/{START_SCRIPT}",
            *argv,
        )

    def python(self, role: str) -> tuple[str, ...]:
        """Return the words that run Python in the container of a role."""
        return (self.cli, "exec", "-i", self.name(role), "python3")

    def name(self, role: str) -> str:
        """Return the name of a role's container."""
        return f"sparkfleet-{re.sub(r'[^a-zA-Z0-9_.-]', '-', self.cluster)}-{role}"

    def _mounts(self) -> tuple[BindMount, ...]:
        """Return all mounts; of those that hold a path the first is where it is shown."""
        managed = (
            BindMount(source=self.folder, target=FOLDER, read_only=True),
            BindMount(source=self.cache, target=CACHE),
            BindMount(source=self.weights, target=WEIGHTS, read_only=self.read_only),
        )
        return (*self.mounts, *managed)

    def _pid_options(self, role: str) -> tuple[str, ...]:
        """Return who is process 1: one that passes signals on, or Ray's container's.

        A driver finds the Ray of its host in the list of processes.
        """
        if role == "serve" and self.group:
            return (f"--pid=container:{self.name('ray')}",)
        return ("--init",)

    def _memory_options(self, role: str) -> tuple[str, ...]:
        """Return how the containers of a host share memory.

        A rank in Ray's container and the server beside it talk through /dev/shm.
        """
        if self.shm_size is None:
            return ("--ipc=host",)
        if role == "serve" and self.group:
            return (f"--ipc=container:{self.name('ray')}",)
        return ("--ipc=shareable", f"--shm-size={self.shm_size}")

    def _tmp_options(self, role: str) -> tuple[str, ...]:
        """Return the /tmp that Ray's container shares with the server: their sockets are there.

        It has no name, so it goes with the last of the two.
        """
        if not self.group:
            return ()
        if role == "serve":
            return (f"--volumes-from={self.name('ray')}",)
        return ("--mount=type=volume,target=/tmp",)
