"""Build options of `docker run` from `engine_*` variables and a host's facts; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from sparkfleet.errors import InventoryError
from sparkfleet.launch.host.daemon import Daemon
from sparkfleet.recipes.settings import Settings

NOFILE = 1048576  # eugr/spark-vllm-docker README: fewer end in "Too many open files"
CDI = "--device=nvidia.com/gpu=all"
HOOK = "--gpus=all"
LIBRARIES = "/opt/sparkfleet"  # where containers see libraries of the host


@dataclass(frozen=True, slots=True, kw_only=True)
class BindMount:
    """A folder or file of the host, and its path in containers."""

    source: str
    target: str
    read_only: bool = False

    @property
    def options(self) -> tuple[str, ...]:
        """The `--mount` option, which, unlike `--volume`, fails for a missing source.

        Its value is a line of CSV.
        """
        fields = ["type=bind", f"source={self.source}", f"target={self.target}"]
        fields += ["readonly"] if self.read_only else []
        return ("--mount=" + ",".join(map(_quote_csv_field, fields)),)


def _quote_csv_field(field: str) -> str:
    return '"' + field.replace('"', '""') + '"' if set(field) & set('",\n') else field


def parse_mounts(settings: Settings, home: str, files: Mapping[str, str]) -> tuple[BindMount, ...]:
    """Return `engine_mounts`; `files` maps names of declared files to paths of the host.

    `nccl_library` is mounted as well. Raises InventoryError for a mount that is not
    HOST:CONTAINER[:ro].
    """
    texts = [str(text) for text in settings.value("engine_mounts") or ()]
    if library := settings.text("nccl_library"):
        texts.append(f"{library}:{LIBRARIES}/{PurePosixPath(library).name}:ro")
    return tuple(_parse_mount(text, settings, home, files) for text in texts)


def _parse_mount(text: str, settings: Settings, home: str, files: Mapping[str, str]) -> BindMount:
    source, _, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    source = files.get(source, source)
    if not source.startswith(("/", "~/")) or not target.startswith("/") or mode not in ("", "ro"):
        raise InventoryError(
            f"engine_mounts: invalid mount {text!r}",
            where=settings.origin("engine_mounts"),
            hint="use HOST:CONTAINER or HOST:CONTAINER:ro; HOST is an absolute path, ~/PATH, "
            "or a name of weights_files, CONTAINER an absolute path",
        )
    source = home + source[1:] if source.startswith("~/") else source
    return BindMount(source=source.rstrip("/"), target=target.rstrip("/"), read_only=mode == "ro")


def build_gpu_options(mode: str, daemon: Daemon) -> tuple[str, ...]:
    """Return the options that give a container the GPU; empty if impossible or not wanted.

    `--gpus` needs NVIDIA's hook, `--device` a CDI specification; the list of runtimes proves
    nothing, since `docker info` on a Spark lists only runc. Podman accepts `--gpus` silently but
    gives no GPU, so it always gets CDI.
    """
    ways = {"all": (HOOK,), "cdi": (CDI,), "none": ()}
    if mode in ways:
        return ways[mode]
    if daemon.hook and daemon.cli != "podman":
        return ways["all"]
    return ways["cdi"] if daemon.cdi else ()


def build_docker_options(
    settings: Settings, daemon: Daemon, devices: Sequence[str], user: str
) -> tuple[str, ...]:
    """Return the options for every container of the host; `devices` are paths in /dev."""
    memory = settings.value("engine_memory")
    options = [*build_gpu_options(settings.text("engine_gpus"), daemon)]
    options += [f"--device={path}" for path in devices]
    limits = ["memlock=-1:-1", f"nofile={NOFILE}:{NOFILE}"]
    options += [f"--ulimit={limit}" for limit in (["host"] if daemon.rootless else limits)]
    options.append("--cap-add=IPC_LOCK")
    if settings.value("engine_privileged"):
        options.append("--privileged")
    if memory is not None:
        size = settings.size("engine_memory")
        options += [f"--memory={size}", f"--memory-swap={size}"]
    if user:
        options.append(f"--user={user}")
    return tuple(options)
