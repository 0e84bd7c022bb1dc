"""Podman on a lab host, as root: the forms of its answers, and the life of a container."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sparkfleet.lab import fleet, paths
from sparkfleet.lab.engine import containers
from sparkfleet.launch.host import processes
from sparkfleet.launch.images import transfer
from tests.commandline import becomes
from tests.stub_spark import BAKED, PROGRAMS, STUB, Spark

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
    pytest.mark.skipif(
        not (shutil.which("podman") and shutil.which("dockerd")),
        reason="apt-get install podman docker.io",
    ),
]

# Its overlays cannot lie on the host's own; the runtime is the lab's.
CONFIGURATION = """
mkdir -p /etc/containers /etc/cdi /var/lib/docker/podman
cat >/etc/containers/storage.conf <<END
[storage]
driver = "overlay"
graphroot = "/var/lib/docker/podman"
runroot = "/run/containers/storage"
END
cat >/etc/containers/containers.conf <<END
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "nvidia"
[engine.runtimes]
nvidia = ["/usr/bin/nvidia-container-runtime"]
END
cat >/etc/cdi/nvidia.yaml <<END
cdiVersion: "0.5.0"
kind: nvidia.com/gpu
devices: [{name: all, containerEdits: {env: [NVIDIA_VISIBLE_DEVICES=all]}}]
END
"""


@pytest.fixture(scope="module")
def spark() -> Iterator[Spark]:
    fleet.start_fleet(1, cables="none")
    containers.start_docker()
    made = Spark("spark-01", root=True, engine="podman")
    made.facts = replace(made.facts, rdma_devices={})  # Podman sees through the lab's stand-ins
    made.root("bash", "-c", CONFIGURATION)
    booted = fleet.read_fleet()
    assert booted is not None
    layer = paths.INSIDE / "stub.tar"
    inside = Path(f"/proc/{booted.hosts[0].pid1}/root{layer}")
    inside.write_bytes(containers.build_image_layer(PROGRAMS))
    options = [
        w
        for line in [*containers.list_image_instructions("/stub"), *BAKED]
        for w in ("--change", line)
    ]
    made.root("podman", "import", *options, str(layer), STUB)
    yield made
    fleet.remove_fleet()


def test_podman_shows_what_it_is_and_what_it_has(spark: Spark) -> None:
    seen = spark.survey()
    assert seen.daemon is not None
    assert seen.daemon.error == ""
    assert seen.daemon.version[0].isdigit()
    assert (seen.daemon.root, seen.daemon.cdi) == ("/var/lib/docker/podman", True)
    assert seen.image is not None
    assert (seen.image.name, seen.image.digest) == (STUB, "")


def test_arguments_and_environment_arrive_and_null_is_unset(spark: Spark) -> None:
    value = "a b'c\"$d\\\n{ä}"
    words, variables = spark.run(
        vllm_args={"x": value}, vllm_env={"Y": value, "NCCL_IB_ADDR_RANGE": None}
    )
    assert words[-1] == variables["Y"] == value
    assert "NCCL_IB_ADDR_RANGE" not in variables


def test_a_container_lives_and_ends_with_its_role(spark: Spark) -> None:
    spark.start()
    seen = spark.survey()
    assert (seen.runs, seen.running_summary) == (True, "1 container")
    assert seen.containers[0]["deployment"] == seen.hash
    assert processes.read_log(spark.link, spark.place, "serve")
    assert spark.stop() >= 1
    assert spark.running() == []


@pytest.mark.thorough
def test_the_container_that_holds_a_port_is_named_next_to_those_of_the_cluster(
    spark: Spark,
) -> None:
    program = "import socket, time; s = socket.create_server(('', 8000)); time.sleep(600)"
    run = ("podman", "run", "-d", "--name=theirs", "--network=host", "--entrypoint=python3")
    spark.start()
    spark.root(*run, STUB, "-c", program)
    try:
        assert becomes(lambda: spark.judge_ports(8000) != {})
        assert spark.judge_ports(8000) == {8000: f"container theirs (localhost/{STUB})"}
    finally:
        spark.root("podman", "rm", "-f", "-t", "0", "theirs")
        spark.stop()
    assert spark.judge_ports(8000) == {}


def test_the_gpu_comes_by_cdi(spark: Spark) -> None:
    seen = spark.survey()
    assert seen.image is not None
    node = transfer.ImageHost(connection=spark.link, settings=spark.settings, survey=seen)
    transfer.probe_image(node, seen.image, ["--device=nvidia.com/gpu=all"])
    found = spark.survey().image
    assert found is not None
    assert found.probe is not None
    assert "NVIDIA GB10" in found.probe.gpus


@pytest.mark.thorough
def test_more_packages_make_an_image(spark: Spark) -> None:
    wants = Spark("spark-01", root=True, engine="podman", engine_pip=["scipy"])
    node = transfer.ImageHost(connection=wants.link, settings=wants.settings, survey=wants.survey())
    transfer.build_image(node)
    assert wants.survey().image is not None
