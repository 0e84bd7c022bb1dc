"""The words by which an engine runs a role."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.commands import quote
from sparkfleet.errors import InputError, InventoryError, RecipeError
from sparkfleet.launch.engines.container import ContainerEngine
from sparkfleet.launch.engines.docker_options import build_gpu_options
from sparkfleet.launch.engines.native import NativeEngine
from sparkfleet.launch.host.daemon import Daemon, parse_daemon
from sparkfleet.launch.host.engine_kind import read_engine_kind
from sparkfleet.launch.preflight.preflight import check_engine_settings
from sparkfleet.links import EnvVar
from tests.engines import (
    DOCKER,
    WITH_IMAGE,
    deployed,
    engine,
    executed,
    info,
    option,
    settings,
    survey,
    words,
)

FABRIC = (EnvVar(name="NCCL_SOCKET_IFNAME", value="enp1s0f1np1", why=""),)


def test_the_engine_is_what_is_set_else_follows_from_the_environment() -> None:
    assert read_engine_kind(settings(engine="podman")) == "podman"
    assert read_engine_kind(settings(engine=None, engine_venv="~/v")) == "native"
    assert read_engine_kind(settings(engine=None)) == "docker"


def test_a_native_engine_runs_the_words_as_they_are() -> None:
    native = engine(engine="native", engine_venv="~/vllm-env")
    assert isinstance(native, NativeEngine)
    assert native.wrap("serve", ("vllm", "serve"), {}) == ("vllm", "serve")
    assert native.program("ray") == "/home/nvidia/vllm-env/bin/ray"
    assert native.inside("/a/b") == "/a/b"


def test_a_container_runs_in_the_foreground_and_is_removed_at_its_end() -> None:
    run = words()
    assert run[:2] == ("docker", "run")
    assert {"--rm", "--init", "--pull=never", "--network=host", "--ipc=host"} <= set(run)
    assert not {"-d", "--detach", "--restart"} & {word.partition("=")[0] for word in run}
    assert option(run, "name") == ["sparkfleet-default-serve"]
    assert option(run, "label")[:2] == ["sparkfleet.cluster=default", "sparkfleet.role=serve"]


def test_a_collective_runs_as_a_rank_would_in_a_container_of_its_own() -> None:
    container = engine(engine_args=["--cap-add=IPC_LOCK"])
    run = container.idle_python({"LD_PRELOAD": "/lib/libnccl.so.2"})
    serve = words(engine_args=["--cap-add=IPC_LOCK"])
    assert run[:4] == ("docker", "run", "--rm", "-i")
    assert run[-2:] == ("--entrypoint=python3", WITH_IMAGE.name)
    assert "--env=LD_PRELOAD=/lib/libnccl.so.2" in run
    assert option(run, "name") == ["sparkfleet-default-collective"]
    assert option(run, "label") == ["sparkfleet.cluster=default", "sparkfleet.role=collective"]
    own = ("--name", "--label", "--mount", "--entrypoint", "--env", "--volume")
    shared = {word for word in serve[2 : serve.index("--entrypoint=bash")] if word[0] == "-"}
    lacking = {word for word in shared - set(run) if word.partition("=")[0] not in own}
    assert lacking == set()
    assert not any("/models" in word or "/sparkfleet" in word for word in run)


def test_a_collective_of_a_native_engine_runs_in_its_environment() -> None:
    native = engine(engine="native", engine_venv="~/vllm-env")
    python = "/home/nvidia/vllm-env/bin/python"
    assert native.idle_python({}) == (python,)
    assert native.idle_python({"LD_PRELOAD": "/n.so"}) == ("env", "LD_PRELOAD=/n.so", python)


def test_limits_are_those_that_a_spark_needs() -> None:
    run = words()
    assert option(run, "ulimit") == ["memlock=-1:-1", "nofile=1048576:1048576"]
    assert option(run, "cap-add") == ["IPC_LOCK"]
    assert option(run, "device") == ["/dev/infiniband"]
    assert "--privileged" not in run


def test_podman_without_root_keeps_the_users_own_limits() -> None:
    rootless = survey(daemon=Daemon(cli="podman", cdi=True, rootless=True))
    run = engine(seen=rootless, engine="podman").wrap("serve", (), {})
    assert run[0] == "podman"
    assert option(run, "ulimit") == ["host"]


def test_weights_are_read_only_and_caches_are_the_hosts_own() -> None:
    assert option(words(), "mount") == [
        "type=bind,source=/home/nvidia/vllm/.sparkfleet/default,target=/sparkfleet,readonly",
        "type=bind,source=/home/nvidia/.cache/sparkfleet/abcdef123456,target=/cache",
        "type=bind,source=/home/nvidia/vllm,target=/models,readonly",
    ]
    caches = {one.name: one.value for one in engine().environment}
    assert caches["VLLM_CACHE_ROOT"] == "/cache/vllm"
    assert caches["HF_MODULES_CACHE"] == "/cache/modules"
    assert "readonly" not in option(words(engine_weights_readonly=False), "mount")[2]


def test_the_server_shares_processes_memory_and_sockets_with_ray() -> None:
    ray = words("ray", group=True)
    serve = words("serve", group=True)
    assert "--init" in ray
    assert option(serve, "pid") == ["container:sparkfleet-default-ray"]
    assert "--init" not in serve
    assert option(ray, "mount")[-1] == "type=volume,target=/tmp"
    assert option(serve, "volumes-from") == ["sparkfleet-default-ray"]
    assert "target=/tmp" not in quote(words("serve"))


def test_shared_memory_of_their_own_is_still_shared_between_the_containers() -> None:
    size = "16GiB"
    ray = words("ray", group=True, engine_shm_size=size)
    serve = words("serve", group=True, engine_shm_size=size)
    assert option(ray, "ipc") + option(ray, "shm-size") == ["shareable", "17179869184"]
    assert option(serve, "ipc") == ["container:sparkfleet-default-ray"]
    assert option(words("serve", engine_shm_size=size), "shm-size") == ["17179869184"]


def test_options_of_the_recipe_come_before_the_image() -> None:
    run = words(
        engine_args=["--cpuset-cpus=0-9"],
        engine_memory="110GiB",
        engine_privileged=True,
        engine_user="host",
    )
    image = run.index("nvcr.io/nvidia/vllm:26.04-py3")
    assert run[image + 1 :] == ("/sparkfleet/container.sh", "vllm", "serve", "/models/x")
    before = run[:image]
    assert {"--cpuset-cpus=0-9", "--privileged", "--user=1000:1000"} <= set(before)
    assert option(before, "memory") == option(before, "memory-swap") == [str(110 << 30)]
    assert before[-1] == "--entrypoint=bash"


def test_a_user_of_the_host_gets_a_home_and_a_cache_of_his_own() -> None:
    own = engine(engine_user="host")
    assert isinstance(own, ContainerEngine)
    assert own.cache == "/home/nvidia/.cache/sparkfleet/abcdef123456-1000-1000"
    assert {one.name: one.value for one in own.environment}["HOME"] == "/cache"


@pytest.mark.parametrize(
    ("text", "mount"),
    [
        ("~/draft:/model:ro", "type=bind,source=/home/nvidia/draft,target=/model,readonly"),
        ("/a,b:/c", 'type=bind,"source=/a,b",target=/c'),
    ],
)
def test_more_of_the_host_can_be_mounted(text: str, mount: str) -> None:
    assert option(words(engine_mounts=[text]), "mount")[0] == mount


@pytest.mark.parametrize("text", ["here", "a:/b", "/a:b", "/a:/b:rw,z"])
def test_an_invalid_mount_is_refused_with_the_valid_form(text: str) -> None:
    with pytest.raises(InventoryError, match="invalid mount") as caught:
        engine(engine_mounts=[text])
    assert caught.value.hint is not None
    assert "HOST:CONTAINER" in caught.value.hint


def test_a_declared_file_can_be_mounted_by_its_name() -> None:
    mounts = option(
        words(
            weights_dir="~/models",
            weights_files=["org/model@main:patched.py"],
            engine_mounts=["patched.py:/usr/lib/model.py:ro"],
        ),
        "mount",
    )
    assert mounts[0] == (
        "type=bind,source=/home/nvidia/models/patched.py,target=/usr/lib/model.py,readonly"
    )


def test_the_models_folder_can_be_named_in_options_and_environment() -> None:
    files = deployed(
        vllm_args={"speculative-config": {"method": "mtp", "model": "@MODEL@/assistant"}},
        vllm_env={"MODEL_PATH": "@MODEL@"},
    )[1]["spark-1"]
    draft = executed(files["vllm-serve.sh"])[-1]
    assert draft == '{"method":"mtp","model":"/models/org/model/assistant"}'
    assert "export MODEL_PATH=/models/org/model\n" in files["nccl.env"]


def test_an_images_own_program_can_serve_and_is_configured_by_its_environment() -> None:
    image = replace(WITH_IMAGE, program=("/entrypoint.sh", "serve"))
    own = engine(seen=survey(image=image), engine_program="image")
    assert own.own_program == ("/entrypoint.sh", "serve")
    assert engine(seen=survey(image=image)).own_program == ()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"vllm_args": {"max-model-len": 1}}, "vllm_args has no effect"),
        ({}, "has no entrypoint or command"),
    ],
)
def test_an_images_own_program_that_cannot_be_configured_or_run_is_refused(
    variables: dict[str, Any], expected: str
) -> None:
    with pytest.raises(InventoryError, match=expected):
        engine(engine_program="image", **variables)


def test_paths_are_where_the_container_has_them() -> None:
    own = engine(engine_mounts=["/data:/d"])
    assert own.inside("/home/nvidia/vllm/hub/x") == "/models/hub/x"
    assert own.inside("/home/nvidia/vllm/.sparkfleet/default/nccl.env") == "/sparkfleet/nccl.env"
    assert own.inside("/data") == "/d"
    assert own.inside("/home/nvidia/vllm-other") == "/home/nvidia/vllm-other"


@pytest.mark.parametrize(
    ("wanted", "daemon", "found"),
    [
        ("auto", DOCKER, ("--gpus=all",)),
        ("auto", Daemon(cli="docker", hook=True, cdi=True), ("--gpus=all",)),
        ("auto", Daemon(cli="docker", cdi=True), ("--device=nvidia.com/gpu=all",)),
        ("auto", Daemon(cli="podman", hook=True, cdi=True), ("--device=nvidia.com/gpu=all",)),
        ("auto", Daemon(cli="podman", hook=True), ()),
        ("cdi", DOCKER, ("--device=nvidia.com/gpu=all",)),
        ("none", DOCKER, ()),
    ],
)
def test_the_gpu_comes_by_what_the_host_has(
    wanted: str, daemon: Daemon, found: tuple[str, ...]
) -> None:
    assert build_gpu_options(wanted, daemon) == found


def test_a_daemon_is_read_from_its_own_words() -> None:
    daemon = parse_daemon("docker", info())
    assert (daemon.version, daemon.client) == ("20.10.24+dfsg1", "28.2.2")
    assert (daemon.root, daemon.storage, daemon.cgroups) == (
        "/var/lib/docker",
        "overlay2",
        "cgroupfs",
    )
    assert not daemon.saves_one_platform
    assert parse_daemon("docker", info(ServerVersion="28.3.0")).saves_one_platform
    assert not parse_daemon("podman", info(ServerVersion="28.3.0")).saves_one_platform


def test_a_name_that_docker_would_refuse_is_changed() -> None:
    made = engine()
    assert isinstance(made, ContainerEngine)
    assert made.name("ray") == "sparkfleet-default-ray"
    odd = ContainerEngine(
        cli="docker", cluster="a b/c", image="i", folder="/f", weights="/w", cache="/c"
    )
    assert odd.name("ray") == "sparkfleet-a-b-c-ray"
    assert option(odd.wrap("ray", (), {}), "label")[0] == "sparkfleet.cluster=a b/c"


def test_the_scripts_of_a_pair_are_one_deployment_with_its_hash_as_label() -> None:
    made, files = deployed(FABRIC, hosts=2)
    assert list(files["spark-1"]) == [
        "nccl.env",
        "container.sh",
        "ray-head.sh",
        "vllm-serve.sh",
        "vllm-config/ray_non_carry_over_env_vars.json",
    ]
    for script in (files["spark-1"]["vllm-serve.sh"], files["spark-2"]["ray-worker.sh"]):
        assert f"sparkfleet.deployment={made.hash}" in option(executed(script), "label")
    serve = executed(files["spark-1"]["vllm-serve.sh"])
    assert option(serve, "env") == [
        "RAY_ADDRESS=192.168.100.1:6379",
        "VLLM_CONFIG_ROOT=/sparkfleet/vllm-config",
    ]
    assert deployed(FABRIC, hosts=2)[0].hash == made.hash


def test_a_mod_runs_in_its_folder_before_the_program(tmp_path: Path) -> None:
    (tmp_path / "fix parser").mkdir()
    (tmp_path / "fix parser/run.sh").write_text("patch <a.patch\n")
    (tmp_path / "fix parser/a.patch").write_text("-x\n")
    (tmp_path / "one.sh").write_text("true\n")
    mods = [str(tmp_path / "fix parser"), str(tmp_path / "one.sh")]
    _, files = deployed(engine_mods=mods)
    own = files["spark-1"]
    assert own["mods/01-fix-parser/a.patch"] == "-x\n"
    assert own["mods/02-one.sh/one.sh"] == "true\n"
    assert own["container.sh"].splitlines()[-5:] == [
        "echo 'sparkfleet: applying 01-fix-parser'",
        '(cd /sparkfleet/mods/01-fix-parser && WORKSPACE_DIR="$OLDPWD" bash run.sh)',
        "echo 'sparkfleet: applying 02-one.sh'",
        '(cd /sparkfleet/mods/02-one.sh && WORKSPACE_DIR="$OLDPWD" bash one.sh)',
        'exec "$@"',
    ]


def test_a_mod_that_is_not_there_is_an_error_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match="engine_mods"):
        deployed(engine_mods=[str(tmp_path / "none.sh")])
    with pytest.raises(InventoryError) as failure:
        deployed(engine_mods=["no-such-clone/mods/one"])
    assert "folder no-such-clone not found here" in str(failure.value.problems[0].hint)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InventoryError, match=r"run\.sh"):
        deployed(engine_mods=[str(tmp_path / "empty")])


def test_a_file_option_that_is_not_declared_is_refused() -> None:
    with pytest.raises(RecipeError, match="which weights_files does not declare"):
        deployed(vllm_args={"chat-template": "unsloth.jinja"})
    inline = deployed(vllm_args={"chat-template": "{{ messages }}"})[1]["spark-1"]
    assert "{{ messages }}" in executed(inline["vllm-serve.sh"])


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"engine_image": None}, "engine_image is not set"),
        ({"engine": "native"}, "engine_venv is not set"),
        ({"engine_mounts": ["x"]}, "invalid mount"),
        ({"engine_mods": ["/none"]}, "cannot be read"),
        ({"vllm_args": {"tool-parser-plugin": "p.py"}}, "which weights_files does not declare"),
        ({"vllm_args": {"tp": 2}}, "is set by sparkfleet itself"),
    ],
)
def test_what_cannot_be_rendered_is_refused_before_a_byte_moves(
    wrong: dict[str, Any], match: str
) -> None:
    check_engine_settings(settings())
    with pytest.raises(InputError, match=match):
        check_engine_settings(settings(**wrong))


def test_what_is_needed_and_not_set_is_named() -> None:
    with pytest.raises(InventoryError, match="engine_image is not set"):
        engine(seen=survey(image=None, image_name="", base=None), engine_image=None)
