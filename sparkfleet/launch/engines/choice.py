"""Create the engine of a host from its settings."""

from __future__ import annotations

import re

from sparkfleet.errors import InventoryError
from sparkfleet.facts import HostFacts
from sparkfleet.launch import staged_paths
from sparkfleet.launch.engines import docker_options, mods
from sparkfleet.launch.engines.container import ContainerEngine
from sparkfleet.launch.engines.engine import Engine
from sparkfleet.launch.engines.native import NativeEngine
from sparkfleet.launch.host.daemon import Daemon
from sparkfleet.launch.host.engine_kind import NATIVE, read_engine_kind
from sparkfleet.launch.host.survey import Survey
from sparkfleet.onhost.shared.endpoint_url import ALL_INTERFACES
from sparkfleet.recipes.settings import Settings

IMAGE = "image"
RDMA = "/dev/infiniband"


def create_engine(
    settings: Settings, survey: Survey, facts: HostFacts, *, cluster: str, group: bool
) -> Engine:
    """Return the engine of one host; with `group`, Ray joins several hosts.

    Raises InventoryError for a missing or invalid setting.
    """
    cli = read_engine_kind(settings)
    if cli == NATIVE:
        return _create_native_engine(settings, survey)
    user = survey.user if settings.text("engine_user") == "host" else settings.text("engine_user")
    weights = survey.expand(settings.text("weights_dir"))
    daemon = survey.daemon or Daemon(cli=cli)
    devices = [RDMA] if facts.rdma_devices else []
    return ContainerEngine(
        cli=cli,
        cluster=cluster,
        image=survey.image_name or settings.needed("engine_image"),
        folder=survey.folder,
        weights=weights,
        cache=build_cache_path(settings, survey, user),
        options=docker_options.build_docker_options(settings, daemon, devices, user),
        mounts=docker_options.parse_mounts(
            settings, survey.home, staged_paths.map_staged_files(settings, weights)
        ),
        extra=tuple(settings.value("engine_args") or ()),
        shm_size=settings.size("engine_shm_size") if settings.value("engine_shm_size") else None,
        group=group,
        user=user,
        read_only=bool(settings.value("engine_weights_readonly")),
        mods=mods.read_mods(settings),
        own_program=_find_image_program(settings, survey),
    )


def _create_native_engine(settings: Settings, survey: Survey) -> NativeEngine:
    shared = settings.text("weights_strategy") == "shared"
    return NativeEngine(
        venv=survey.expand(settings.needed("engine_venv")),
        modules=survey.expand(f"{settings.text('engine_cache_dir')}/modules") if shared else "",
    )


def _find_image_program(settings: Settings, survey: Survey) -> tuple[str, ...]:
    """Return the image's own program if `engine_program` is image.

    Raises InventoryError for options that would have no effect then.
    """
    if settings.text("engine_program") != IMAGE:
        return ()
    given = {
        "vllm_args": settings.mapping("vllm_args"),
        "vllm_host": settings.text("vllm_host") != ALL_INTERFACES,
    }
    for name in (name for name, value in given.items() if value):
        raise InventoryError(
            f"{name} has no effect with engine_program: image",
            where=settings.origin(name),
            hint="configure it with vllm_env, or remove engine_program",
        )
    if survey.image is None:
        return ("unknown",)
    if not survey.image.program:
        raise InventoryError(
            f"image {survey.image_name} has no entrypoint or command",
            where=settings.origin("engine_program"),
            hint="remove engine_program: image",
        )
    return survey.image.program


def build_cache_path(settings: Settings, survey: Survey, user: str) -> str:
    """Return the folder of the host for compiled kernels.

    There is one for each image and user: files of another image are stale, and those of another
    user cannot be overwritten.
    """
    image = survey.image
    parts = [image.key if image else "unknown", *([re.sub(r"\W", "-", user)] if user else [])]
    return f"{survey.expand(settings.text('engine_cache_dir'))}/{'-'.join(parts)}"
