"""Docker on lab hosts: sparkfleet's containers, images on their way, and nothing left behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as bounds
from hypothesis import strategies as st

from sparkfleet.actions.check.drift import find_role_processes
from sparkfleet.commands import Command
from sparkfleet.errors import CommandError, LaunchError
from sparkfleet.lab import fleet
from sparkfleet.lab import state as states
from sparkfleet.lab.engine import containers
from sparkfleet.launch.host import memory_guard, processes
from sparkfleet.launch.images import transfer
from sparkfleet.weights.transfer.routes import Ends
from tests import one_wire
from tests.commandline import becomes
from tests.standin import faults
from tests.stub_spark import BAKED, PROGRAMS, STUB, Spark

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
    pytest.mark.skipif(shutil.which("dockerd") is None, reason="apt-get install docker.io"),
]

LARGE = "sparkfleet-large:1"
MAKE_LARGE = f"""docker image inspect {LARGE} >/dev/null 2>&1 || {{
    mkdir /run/large && head -c 200000000 /dev/urandom >/run/large/file &&
    tar -C /run/large -c . | docker import - {LARGE}; rm -r /run/large; }}"""
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)


@pytest.fixture(scope="module")
def lab() -> Iterator[fleet.LabFleet]:
    booted = fleet.start_fleet(2)
    containers.start_docker()
    state = states.load_lab_state()
    assert state is not None
    changes = [*containers.list_image_instructions("/stub"), *BAKED]
    containers.import_image(
        state.running["spark-01"],
        STUB,
        containers.build_image_layer(PROGRAMS),
        instructions=changes,
    )
    yield booted
    fleet.remove_fleet()


@pytest.fixture
def here(lab: fleet.LabFleet) -> Spark:
    spark = Spark("spark-01")
    spark.root("sh", "-c", "mkdir -p /home/nvidia/vllm && chown nvidia: /home/nvidia/vllm")
    return spark


@pytest.fixture
def spark(here: Spark) -> Iterator[Spark]:
    yield here
    with suppress(CommandError):
        here.stop()


@bounds(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(values=st.lists(WORDS, min_size=1, max_size=20))
@example(values=["-"])
def test_every_argument_arrives_byte_for_byte(here: Spark, values: list[str]) -> None:
    values = ["-" + value if value.startswith("-") else value for value in values]
    arguments: dict[str, Any] = {f"option-{number}": value for number, value in enumerate(values)}
    arguments |= {"json": {"method": "mtp", "ä'\"$": values}, "list": values}
    words, _ = here.run(vllm_args=arguments)
    assert [_value(words, f"--option-{at}") for at in range(len(values))] == values
    assert json.loads(words[words.index("--json") + 1]) == arguments["json"]
    assert words[words.index("--list") + 1 :] == values


def _value(words: list[str], option: str) -> str:
    """Return the value of an option: the next word, or in one with it if it begins with a dash."""
    joined = [word for word in words if word.startswith(f"{option}=")]
    return joined[0].partition("=")[2] if joined else words[words.index(option) + 1]


@bounds(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(values=st.lists(WORDS, min_size=1, max_size=20))
def test_every_variable_arrives_byte_for_byte(here: Spark, values: list[str]) -> None:
    wanted = {f"V{number}": value for number, value in enumerate(values)}
    _, variables = here.run(vllm_env=wanted)
    assert {name: variables[name] for name in wanted} == wanted


def test_null_is_truly_unset_whatever_the_image_has(here: Spark) -> None:
    _, variables = here.run(vllm_env={"A": "1"})
    assert variables["NCCL_IB_ADDR_RANGE"] == "10.0.0.0/8"
    _, variables = here.run(vllm_env={"NCCL_IB_ADDR_RANGE": None, "EMPTY_IS_SET": None})
    assert not {"NCCL_IB_ADDR_RANGE", "EMPTY_IS_SET"} & set(variables)


def test_an_images_own_program_serves_and_is_configured_by_its_environment(here: Spark) -> None:
    words, variables = here.run(engine_program="image", vllm_env={"MODEL_PATH": "@MODEL@"})
    assert words == ["of", "the image"]
    assert variables["MODEL_PATH"] == "/models/m"


def test_a_declared_file_is_mounted_over_one_of_the_image(here: Spark, tmp_path: Path) -> None:
    (tmp_path / "show.sh").write_text("cat /packages\n")
    here.root("sh", "-c", "echo patched > /home/nvidia/vllm/own.py")
    made = here.deployment(
        weights_files=["org/model@main:own.py"],
        engine_mounts=["own.py:/packages:ro"],
        engine_mods=[str(tmp_path / "show.sh")],
    )
    here.write(made)
    done = here.link.run(Command(argv=("bash", f"{here.survey().folder}/vllm-serve.sh")))
    assert done.returncode == 0, done.stderr
    assert b"patched" in done.stdout.splitlines()


def test_no_secret_shows_in_what_docker_shows_of_a_container(spark: Spark) -> None:
    spark.start(vllm_env={"STAY": "1", "HF_TOKEN": "hf_do_not_show"})
    assert "hf_do_not_show" not in spark.root("docker", "inspect", *spark.running())
    assert "hf_do_not_show" not in spark.root("sh", "-c", "cat /proc/[0-9]*/cmdline")


def test_a_container_lives_and_ends_with_its_role(spark: Spark) -> None:
    spark.start()
    seen = spark.survey()
    assert (seen.dead, seen.running_summary, seen.runs) == ((), "1 container", True)
    assert seen.containers[0]["deployment"] == seen.hash
    assert spark.stop() == 1
    assert spark.running() == []
    assert spark.survey().hash is None


def test_a_program_that_ends_at_once_shows_its_last_words(spark: Spark) -> None:
    with pytest.raises(LaunchError, match="exited immediately") as caught:
        spark.start(vllm_env={})
    assert caught.value.hint
    assert spark.running() == []


def test_a_container_whose_client_was_killed_is_dead_and_is_removed(spark: Spark) -> None:
    spark.start()
    (client,) = spark.survey().processes
    spark.root("kill", "-9", str(client["pid"]))
    seen = spark.survey()
    assert seen.dead == ("serve",)
    assert seen.running_summary == "1 container"
    assert spark.stop() == 1
    assert spark.running() == []


def test_what_does_not_carry_our_label_stays(spark: Spark) -> None:
    foreign = ("docker", "run", "-d", "--network=none", "--entrypoint=sleep")
    spark.root(*foreign, "--name=sparkfleet-stub-ray", STUB, "600")
    spark.root(*foreign, "--name=theirs", "--label=sparkfleet.cluster=other", STUB, "600")
    spark.start()
    spark.stop()
    assert sorted(spark.running()) == ["sparkfleet-stub-ray", "theirs"]
    spark.root("docker", "rm", "-f", "sparkfleet-stub-ray", "theirs")


SERVE = "import socket, time; s = socket.create_server(('', {port})); time.sleep(600)"


def _serve(spark: Spark, name: str, port: int, *options: str) -> None:
    run = ("docker", "run", "-d", f"--name={name}", "--network=host", "--entrypoint=python3")
    spark.root(*run, *options, STUB, "-c", SERVE.format(port=port))
    assert becomes(lambda: f":{port} " in spark.root("ss", "-tln"))


def test_the_container_that_holds_a_port_is_named_next_to_those_of_the_cluster(
    spark: Spark,
) -> None:
    _serve(spark, "theirs", 8000)
    _serve(spark, "ours", 6379, "--label=sparkfleet.cluster=stub")
    try:
        assert spark.judge_ports(8000, 6379) == {8000: f"container theirs ({STUB})"}
        spark.start()
        assert spark.judge_ports(8000, 6379) == {8000: f"container theirs ({STUB})"}
    finally:
        spark.root("docker", "rm", "-f", "theirs")
    assert spark.judge_ports(8000, 6379) == {}


def test_the_process_that_holds_a_port_is_named_and_roots_as_far_as_it_shows(spark: Spark) -> None:
    spark.start()
    with spark.serve(8000, user="nvidia"):
        assert "python3 (pid " in spark.judge_ports(8000)[8000]
    with spark.serve(8000, user="root"):
        assert spark.judge_ports(8000) == {8000: "a process of user root"}


def test_the_memory_guard_ends_the_container_and_not_only_its_client(spark: Spark) -> None:
    foreign = ("docker", "run", "-d", "--network=none", "--name=theirs", "--entrypoint=sleep")
    spark.root(*foreign, STUB, "600")
    memory_guard.arm_guard(spark.link, spark.place, spark.settings)
    spark.start()
    fleet.set_fault(spark.name, "memory")
    assert becomes(lambda: spark.running() == ["theirs"])
    fleet.set_fault(spark.name, "memory", clear=True)
    seen = spark.survey()
    assert seen.dead == ("serve",)
    assert seen.guard is not None
    assert "memory guard: 0.1 GiB were available" in str(seen.guard.reason)
    spark.root("docker", "rm", "-f", "theirs")


def test_the_folder_that_two_containers_share_goes_with_the_last(spark: Spark) -> None:
    ours = ("docker", "run", "-d", "--network=none", "--label=sparkfleet.cluster=stub")
    stay = ("--entrypoint=sleep", STUB, "600")
    spark.root(*ours, "--name=sparkfleet-stub-ray", "--mount=type=volume,target=/tmp", *stay)
    spark.root(*ours, "--name=second", "--volumes-from=sparkfleet-stub-ray", *stay)
    spark.root("docker", "exec", "sparkfleet-stub-ray", "touch", "/tmp/socket")
    spark.root("docker", "exec", "second", "test", "-e", "/tmp/socket")
    spark.stop()
    assert spark.root("docker", "volume", "ls", "-q").split() == []


def test_one_that_ignores_its_end_is_killed_within_the_limit(spark: Spark) -> None:
    spark.root(
        "docker", "run", "-d", "--network=none", "--label=sparkfleet.cluster=stub",
        "--entrypoint=bash", STUB, "-c", "trap '' TERM; while :; do sleep 1; done",
    )  # fmt: skip
    assert spark.stop() == 1
    assert spark.running() == []


def test_a_mod_changes_the_container_and_one_that_fails_shows_why(
    spark: Spark, tmp_path: Path
) -> None:
    mod = tmp_path / "mod.sh"
    mod.write_text("ls >/modded\n")
    spark.start(engine_mods=[str(mod)])
    spark.root("docker", "exec", "sparkfleet-stub-serve", "test", "-s", "/modded")
    assert "applying 01-mod.sh" in processes.read_log(spark.link, spark.place, "serve")
    spark.stop()
    mod.write_text("echo 'patch: hunk 1 FAILED' >&2; exit 3\n")
    with pytest.raises(LaunchError) as caught:
        spark.start(engine_mods=[str(mod)])
    assert "hunk 1 FAILED" in str(caught.value.hint)
    mod.unlink()


def test_what_a_container_writes_to_its_cache_outlives_it(spark: Spark) -> None:
    spark.start()
    spark.root("docker", "exec", "sparkfleet-stub-serve", "sh", "-c", "echo x >/cache/kernel")
    refused = spark.root(
        "docker", "exec", "sparkfleet-stub-serve", "touch", "/models/x", check=False
    )
    assert "Read-only file system" in refused
    spark.stop()
    spark.start()
    spark.root("docker", "exec", "sparkfleet-stub-serve", "test", "-s", "/cache/kernel")


@pytest.mark.parametrize("own", [{"engine_user": "host"}, {}])
def test_the_environment_inside_is_compared_with_its_file(
    spark: Spark, own: dict[str, str]
) -> None:
    spark.start(**own)
    asked = {**spark.place, **find_role_processes(spark.survey())}
    assert list(asked["pids"]) == ["serve"]
    assert spark.link.run_program("host/environment", asked)["differ"] == {}
    spark.root("sh", "-c", f"echo 'export NCCL_DEBUG=TRACE' >>{spark.survey().folder}/nccl.env")
    assert spark.link.run_program("host/environment", asked)["differ"] == {"serve": ["NCCL_DEBUG"]}


def test_a_user_of_the_host_owns_what_the_container_writes(spark: Spark) -> None:
    spark.start(engine_user="host")
    spark.root("docker", "exec", "sparkfleet-stub-serve", "touch", "/cache/mine")
    found = spark.root("sh", "-c", "stat -c %U /home/nvidia/.cache/sparkfleet/*/mine")
    assert found.split() == ["nvidia"]


def test_an_image_goes_from_engine_to_engine_over_the_fabric(here: Spark, lab: Any) -> None:
    there = Spark("spark-02")
    there.root("sh", "-c", "mkdir -p /home/nvidia/vllm && chown nvidia: /home/nvidia/vllm")
    seen = here.survey()
    source = transfer.ImageHost(connection=here.link, settings=here.settings, survey=seen)
    target = transfer.ImageHost(
        connection=there.link, settings=there.settings, survey=there.survey()
    )
    assert target.survey.image is None
    ends = Ends(sender=lab.hosts[0].rails[0].address, receiver=lab.hosts[1].rails[0].address)
    transfer.copy_image(source, target, ends, lambda *_: None)
    copied = transfer.inspect_images(target).image
    assert copied is not None
    assert seen.image is not None
    assert copied.same_as(seen.image)
    assert there.root("ls", "/tmp").split() == []


@pytest.fixture
def ends_of_copy(lab: fleet.LabFleet) -> tuple[transfer.ImageHost, transfer.ImageHost]:
    """Return the hosts between which a large image is copied; the second lacks it."""
    ends = [Spark(name, engine_image=LARGE) for name in ("spark-01", "spark-02")]
    ends[0].root("sh", "-c", MAKE_LARGE)
    ends[1].root("docker", "image", "rm", "-f", LARGE, check=False)
    source, target = (
        transfer.ImageHost(connection=end.link, settings=end.settings, survey=end.survey())
        for end in ends
    )
    assert target.survey.image is None
    return source, target


@pytest.mark.parametrize("lost", ["spark-01", pytest.param("spark-02", marks=pytest.mark.thorough)])
def test_a_connection_that_drops_while_an_image_is_copied_does_not_undo_it(
    ends_of_copy: tuple[transfer.ImageHost, transfer.ImageHost], lab: fleet.LabFleet, lost: str
) -> None:
    source, target = ends_of_copy
    ends = Ends(sender=lab.hosts[0].rails[0].address, receiver=lab.hosts[1].rails[0].address)
    dropped: list[str] = []

    def drop(now: transfer.ImageProgress) -> None:
        if now.done and not dropped:
            dropped.append(lost)
            faults.end_sessions(lost)(None)

    transfer.repeat_after_loss(
        lambda: transfer.copy_image(source, target, ends, drop), target, source
    )
    assert dropped
    assert source.connection.reopened + target.connection.reopened == 1
    copied = transfer.inspect_images(target).image
    assert copied is not None
    assert source.survey.image is not None
    assert copied.same_as(source.survey.image)


@pytest.mark.thorough
@pytest.mark.parametrize(("rp_filter", "twin"), [(0, True), (2, True), (2, False), (1, False)])
def test_an_image_is_copied_whichever_rail_answers_arp(
    ends_of_copy: tuple[transfer.ImageHost, transfer.ImageHost],
    lab: fleet.LabFleet,
    *,
    rp_filter: int,
    twin: bool,
) -> None:
    source, target = ends_of_copy
    with one_wire.answering(lab, rp_filter=rp_filter, twin=twin):
        for rail in range(2):
            ends = Ends(
                sender=lab.hosts[0].rails[rail].address, receiver=lab.hosts[1].rails[rail].address
            )
            transfer.copy_image(source, target, ends, lambda _: None)
    assert transfer.inspect_images(target).image is not None


def test_only_the_one_who_knows_the_key_gets_an_image(here: Spark, lab: Any) -> None:
    there = Spark("spark-02")
    node = transfer.ImageHost(connection=there.link, settings=there.settings, survey=there.survey())
    request = {"do": "receive", "cli": "docker", "address": "127.0.0.1", "port": 9, "key": "x"}
    request["own"] = "127.0.0.1"
    with pytest.raises(CommandError, match="Connection refused"):
        node.connection.run_program("deployment/images", request)


def test_a_look_inside_is_kept_by_what_the_image_holds(here: Spark) -> None:
    seen = here.survey()
    node = transfer.ImageHost(connection=here.link, settings=here.settings, survey=seen)
    assert seen.image is not None
    assert seen.image.probe is None
    transfer.probe_image(node, seen.image, ["--gpus=all"])
    found = here.survey().image
    assert found is not None
    assert found.probe is not None
    assert found.probe.packages["vllm"] == "0.32.0+cpu"
    assert found.probe.nodes
    assert "NVIDIA GB10" in found.probe.gpus


def test_more_packages_make_an_image_named_by_what_it_is_made_of(here: Spark) -> None:
    wants = Spark("spark-01", engine_pip=["scipy", "ray[default]>=2.40"])
    node = transfer.ImageHost(connection=wants.link, settings=wants.settings, survey=wants.survey())
    assert node.survey.image is None
    assert node.survey.base is not None
    transfer.build_image(node)
    seen = wants.survey()
    assert seen.image is not None
    assert seen.image_name == node.survey.image_name
    assert seen.image.layers[:-1] == node.survey.base.layers
    run = ("docker", "run", "--rm", "--network=none", "--entrypoint=cat", seen.image_name)
    assert wants.root(*run, "/packages").split() == ["scipy", "ray[default]>=2.40"]


def test_a_package_that_cannot_be_had_shows_pips_words(here: Spark) -> None:
    wants = Spark("spark-01", engine_pip=["broken"])
    node = transfer.ImageHost(connection=wants.link, settings=wants.settings, survey=wants.survey())
    with pytest.raises(CommandError, match="no such package: broken"):
        transfer.build_image(node)


def test_an_image_is_pulled_with_its_layers_counted(here: Spark) -> None:
    name = "tiny"
    port = 5000
    script = (
        "mkdir /run/saved && cd /run/saved && docker save {stub} | tar x && "
        "python3 {registry} /run/saved {name} {port} >/run/registry.log 2>&1 &"
    )
    registry = Path(__file__).parents[1] / "registry.py"
    shown = Path("/run/registry.py")
    state = states.load_lab_state()
    assert state is not None
    pid = state.running["spark-01"].pid
    shutil.copy(registry, f"/proc/{pid}/root{shown}")
    here.root("sh", "-c", script.format(stub=STUB, registry=shown, name=name, port=port))
    wants = Spark("spark-01", engine_image=f"127.0.0.1:{port}/{name}:1")
    node = transfer.ImageHost(connection=wants.link, settings=wants.settings, survey=wants.survey())
    assert node.survey.image is None

    def pulled() -> bool:  # the registry has only just started
        with suppress(CommandError):
            transfer.pull_image(node, lambda *_: None)
            return True
        return False

    assert becomes(pulled)
    image = transfer.inspect_images(node).image
    assert image is not None
    assert image.digest.startswith("sha256:")
    stub = here.survey().image
    assert stub is not None
    assert image.same_as(stub)


def test_a_registry_that_is_out_of_reach_is_said_with_another_way() -> None:
    wants = Spark("spark-01", engine_image="registry.invalid/vllm:1")
    node = transfer.ImageHost(connection=wants.link, settings=wants.settings, survey=wants.survey())
    with pytest.raises(CommandError, match="docker cannot pull") as caught:
        transfer.pull_image(node, lambda *_: None)
    assert "engine_image_source: copy" in str(caught.value.hint)


def test_a_daemon_that_is_down_is_reported_and_nothing_is_taken_for_stopped(spark: Spark) -> None:
    spark.root("sh", "-c", "kill $(cat /run/docker.pid); while pgrep dockerd; do sleep 0.1; done")
    seen = spark.survey()
    assert seen.daemon is not None
    assert "Cannot connect to the Docker daemon" in seen.daemon.error
    with pytest.raises(CommandError, match="docker ps"):
        spark.stop()
    containers.start_docker()
    assert spark.survey().daemon == replace(spark.survey().daemon or seen.daemon, error="")


def test_docker_comes_back_with_a_host_that_lost_its_power(lab: Any) -> None:
    fleet.set_fault("spark-02", "power-off")
    fleet.set_fault("spark-02", "power-off", clear=True)
    containers.start_docker()
    there = Spark("spark-02")
    assert containers.name_engine_image() in there.root(
        "docker", "image", "ls", "--format", "{{.Repository}}:{{.Tag}}"
    )


def test_nothing_of_docker_is_left_after_the_lab(here: Spark) -> None:
    groups = Path("/sys/fs/cgroup")
    here.start()
    found = [*groups.glob("sparkfleet-lab"), *groups.glob("*/sparkfleet-lab")]
    assert bool(found) == any(groups.iterdir())  # a machine may show none
    fleet.remove_fleet()
    assert [path for path in found if path.exists()] == []
    names = subprocess.run(["ps", "-eo", "comm="], capture_output=True, text=True, check=True)
    assert not {"dockerd", "containerd", "containerd-shim"} & set(names.stdout.split())
