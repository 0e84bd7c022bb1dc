"""Docker and Podman: each role is one container in the foreground of its script.

Its output is the role's log; the role ends when it does. The environment is not on the command
line: the container's first program reads the same ``nccl.env`` as a native rank. So a null unsets
a variable even if the image has it baked in, and no secret shows in `docker inspect`.
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

WEIGHTS = "/models"
FOLDER = "/sparkfleet"
CACHE = "/cache"
IDLE_ROLE = "collective"  # of the container that a collective runs in before a start
# Stands for the deployment's hash while the hash of the files is computed.
HASH_PLACEHOLDER = "@SPARKFLEET_DEPLOYMENT@"
# Cache variables of vLLM, PyTorch, Triton, FlashInfer, TileLang and transformers. The caches are
# local to each host: on a shared disk they collide.
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
    """Runs each role of one host in a container.

    `image` is the name on the host's daemon; `cache` is a folder of the host; `options` are passed
    to every container. With `shm_size` in bytes the containers of the host share their own
    /dev/shm, else the host's. `group`: Ray joins several hosts. `own_program` is the image's
    program if it serves in place of `vllm serve`.
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
        """Variables for cache folders, and for a user without an account in the image."""
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
        """Template variables: the cache folder to create, and the mods to apply."""
        return {"venv": "", "cache": self.cache, "mods": self.mods, "inside": FOLDER}

    @property
    def files(self) -> Mapping[str, str]:
        """The files of the mods."""
        return {name: text for mod in self.mods for name, text in mod.files.items()}

    def inside(self, path: str) -> str:
        """Return the path in the container of host path `path`; `path` itself if not mounted."""
        for mount in self._mounts():
            if path == mount.source or path.startswith(f"{mount.source}/"):
                return mount.target + path[len(mount.source) :]
        return path

    def program(self, name: str) -> str:
        """Return `name`, which is on the image's PATH."""
        return name

    def wrap(self, role: str, argv: Sequence[str], variables: Mapping[str, str]) -> tuple[str, ...]:
        """Return the `docker run` command that runs `argv` in a container."""
        return (
            self.cli,
            "run",
            "--rm",
            *self._identity(role),
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
        """Return the command that runs Python in the container of a role."""
        return (self.cli, "exec", "-i", self.name(role), "python3")

    def idle_python(self, variables: Mapping[str, str]) -> tuple[str, ...]:
        """Return the command that runs Python in a container of its own, as a rank's would be.

        The folders that a start creates are not mounted: they may not exist yet.
        """
        return (
            self.cli,
            "run",
            "--rm",
            "-i",
            *self._identity(IDLE_ROLE),
            "--network=host",
            *self._pid_options(IDLE_ROLE),
            *self._memory_options(IDLE_ROLE),
            *self.options,
            *(argument for mount in self.mounts for argument in mount.options),
            *(f"--env={name}={value}" for name, value in variables.items()),
            *self.extra,
            "--entrypoint=python3",
            self.image,
        )

    def name(self, role: str) -> str:
        """Return the name of a role's container."""
        return f"sparkfleet-{re.sub(r'[^a-zA-Z0-9_.-]', '-', self.cluster)}-{role}"

    def _identity(self, role: str) -> tuple[str, ...]:
        return (
            "--pull=never",
            "--no-healthcheck",
            f"--name={self.name(role)}",
            f"--label={labels.CLUSTER_LABEL}={self.cluster}",
            f"--label={labels.ROLE_LABEL}={role}",
        )

    def _mounts(self) -> tuple[BindMount, ...]:
        """Return all mounts; the first that holds a path decides where containers see it."""
        managed = (
            BindMount(source=self.folder, target=FOLDER, read_only=True),
            BindMount(source=self.cache, target=CACHE),
            BindMount(source=self.weights, target=WEIGHTS, read_only=self.read_only),
        )
        return (*self.mounts, *managed)

    def _pid_options(self, role: str) -> tuple[str, ...]:
        """Return the PID namespace options: an init that forwards signals, or Ray's namespace.

        A Ray driver finds the Ray of its host in the process list.
        """
        if role == "serve" and self.group:
            return (f"--pid=container:{self.name('ray')}",)
        return ("--init",)

    def _memory_options(self, role: str) -> tuple[str, ...]:
        """Return the shared memory options.

        A rank in Ray's container and the server in its own container talk through /dev/shm.
        """
        if self.shm_size is None:
            return ("--ipc=host",)
        if role == "serve" and self.group:
            return (f"--ipc=container:{self.name('ray')}",)
        return ("--ipc=shareable", f"--shm-size={self.shm_size}")

    def _tmp_options(self, role: str) -> tuple[str, ...]:
        """Return the options for a /tmp that Ray and the server share for their sockets.

        The volume is anonymous, so it is removed with the last of the two containers.
        """
        if not self.group:
            return ()
        if role == "serve":
            return (f"--volumes-from={self.name('ray')}",)
        return ("--mount=type=volume,target=/tmp",)
