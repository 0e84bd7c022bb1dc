"""`hosts.*`, typed against lab hosts."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.commands import quote
from sparkfleet.lab import fleet
from sparkfleet.lab.fleet import LabFleet
from sparkfleet.lab.paths import INVENTORY
from sparkfleet.launch.preflight.page_cache import DROP_COMMAND
from tests.commandline import run_command

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]

needs_sudo = pytest.mark.skipif(
    shutil.which("sudo") is None, reason="lab hosts have this machine's sudo"
)
HOSTS = ("spark-01", "spark-02")
RULE = "/etc/sudoers.d/sparkfleet-drop-caches"
ASKING = "/etc/sudoers.d/80-password"
# Stands in for nvidia-ctk, as NVIDIA's pages on runtimes and CDI describe what it writes.
TOOLKIT = r"""
rm -rf /etc/docker /etc/cdi
cat >/usr/bin/nvidia-ctk <<'.'
#!/bin/sh
set -e
case "$*" in
"runtime configure --runtime=docker")
    mkdir -p /etc/docker
    echo '{"runtimes": {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}}' \
        >/etc/docker/daemon.json ;;
"cdi generate --output=/etc/cdi/nvidia.yaml")
    mkdir -p /etc/cdi
    printf 'cdiVersion: 0.5.0\nkind: nvidia.com/gpu\n' >/etc/cdi/nvidia.yaml ;;
*) exit 64 ;;
esac
.
chmod +x /usr/bin/nvidia-ctk
"""
# And for the systemctl of a host whose toolkit has the service, from 1.18 on.
REFRESH = r"""
cat >/usr/local/bin/systemctl <<'.'
#!/bin/sh
echo "$*" >>/run/asked
.
chmod +x /usr/local/bin/systemctl
"""
TOOLKIT_FILES = (
    "/usr/bin/nvidia-ctk",
    "/usr/local/bin/systemctl",
    "/run/asked",
    "/etc/docker",
    "/etc/cdi",
)
ASK = f"""rm -f {RULE} /etc/sudoers.d/90-nvidia
echo 'nvidia ALL=(ALL:ALL) ALL' >{ASKING}
echo "$1" | chpasswd"""
FREE = f"""echo 'nvidia ALL=(ALL) NOPASSWD:ALL' >/etc/sudoers.d/90-nvidia
chmod 440 /etc/sudoers.d/90-nvidia
rm -f {ASKING}"""
HOLD = (
    "python3 -c \"import socket, time; s = socket.create_server(('', 8000)); time.sleep(600)\" "
    ">/dev/null 2>&1 & echo $!; until ss -Htln sport = :8000 | grep -q .; do sleep 0.1; done"
)


def _type(*words: str) -> subprocess.CompletedProcess[str]:
    return run_command(*words, "--inventory", str(INVENTORY))


def _json(*words: str) -> tuple[int, Any]:
    done = _type(*words, "--output", "json")
    return done.returncode, json.loads(done.stdout)


@pytest.mark.usefixtures("lab")
def test_facts_are_shown_side_by_side() -> None:
    code, result = _json("hosts.facts")
    assert code == 0
    assert tuple(result["hosts"]) == HOSTS
    assert {one["gpus"][0]["name"] for one in result["hosts"].values()} == {"NVIDIA GB10"}
    lines = _type("hosts.facts", "--host", "spark-02").stdout.splitlines()
    assert lines[1].split() == ["spark-02"]
    assert any(line.split()[:2] == ["GPU", "NVIDIA"] for line in lines)


@pytest.mark.usefixtures("lab")
def test_a_port_that_is_held_refuses() -> None:
    assert _json("hosts.check")[0] == 0
    pid = fleet.run_on("spark-01", ["sh", "-c", HOLD]).stdout.strip()
    done = _type("hosts.check")
    fleet.run_on("spark-01", ["kill", pid])
    assert done.returncode == 2
    (refused,) = [line for line in done.stdout.splitlines() if line.startswith("error: ")]
    assert refused.startswith(
        "error: spark-01: port 8000 (vllm_port): expected a free port, saw a port in use by"
    )


@pytest.mark.usefixtures("lab")
def test_a_host_that_does_not_answer_leaves_the_others_shown(tmp_path: Path) -> None:
    more = tmp_path / "more.yml"
    more.write_text("sparks: {hosts: {spark-03: {ansible_host: 127.0.0.1, ansible_port: 1}}}\n")
    code, result = _json("hosts.check", "--inventory", str(more))
    assert code == 4
    assert {verdict["host"] for verdict in result["verdicts"]} == {*HOSTS}
    assert tuple(result["errors"]) == ("spark-03",)
    assert _type("hosts.facts", "--inventory", str(more)).returncode == 4


def _changed(*words: str) -> list[int]:
    done = _type("hosts.prepare", *words)
    assert done.returncode == 0, done.stdout
    return [
        int(count) for count in re.findall(r"^spark-0\d .* changed=(\d)", done.stdout, re.MULTILINE)
    ]


@pytest.mark.usefixtures("lab")
def test_what_would_be_prepared_is_shown_and_done_only_with_yes() -> None:
    there = ["test", "-d", "/home/nvidia/vllm"]
    shown = _type("hosts.prepare", "--tags", "weights")
    assert "undo: rmdir ~/vllm" in shown.stdout
    assert shown.stdout.endswith("nothing was changed; to make these changes: --yes\n")
    assert _changed("--yes", "--check", "--tags", "weights") == [1, 1]
    assert fleet.run_on("spark-01", there, check=False).returncode == 1
    assert _changed("--yes", "--tags", "weights") == [1, 1]
    assert fleet.run_on("spark-01", there).returncode == 0
    assert _changed("--yes", "--tags", "weights") == [0, 0]


@needs_sudo
@pytest.mark.usefixtures("free_sudo")
def test_the_rule_for_drop_caches_allows_that_command_only() -> None:
    _changed("--yes", "--tags", "caches,linger,docker", "--set", "engine=docker")
    assert _changed("--yes", "--tags", "caches,docker") == [0, 0]
    fleet.run_on("spark-01", ["rm", "/etc/sudoers.d/90-nvidia"])
    for words, code in ((DROP_COMMAND, 0), (("sh", "-c", "id"), 1), ((*DROP_COMMAND, "id"), 1)):
        allowed = ["su", "nvidia", "-s", "/bin/sh", "-c", quote(("sudo", "-n", "-l", *words))]
        assert fleet.run_on("spark-01", allowed, check=False).returncode == code


@pytest.fixture
def free_sudo(lab: LabFleet) -> None:
    """Let sudo on all hosts ask for no password, as in a new lab; other tests change that."""
    for name in HOSTS:
        fleet.run_on(name, ["sh", "-ec", FREE])


@pytest.fixture
def toolkit(free_sudo: None) -> Iterator[None]:
    """Put a stand-in for NVIDIA's toolkit on all hosts; nothing of it stays."""
    for name in HOSTS:
        fleet.run_on(name, ["sh", "-ec", TOOLKIT])
    yield
    for name in HOSTS:
        fleet.run_on(name, ["rm", "-rf", *TOOLKIT_FILES])


@needs_sudo
@pytest.mark.usefixtures("free_sudo")
def test_without_nvidias_toolkit_nothing_of_it_is_set_up() -> None:
    assert _changed("--yes", "--tags", "gpu,cdi", "--set", "engine=docker") == [0, 0]


@needs_sudo
@pytest.mark.usefixtures("toolkit")
def test_nvidias_runtime_and_a_cdi_specification_are_set_up_once() -> None:
    words = ("--yes", "--tags", "gpu,cdi", "--set", "engine=docker")
    shown = _type("hosts.prepare", *words[1:])
    assert "sudo nvidia-ctk runtime configure --runtime=docker" in shown.stdout
    assert fleet.run_on("spark-01", ["ls", "/etc/docker"], check=False).returncode
    assert _changed(*words) == [2, 2]
    for name in HOSTS:
        runtimes = json.loads(fleet.run_on(name, ["cat", "/etc/docker/daemon.json"]).stdout)
        assert runtimes["runtimes"]["nvidia"]["path"] == "nvidia-container-runtime"
        assert "nvidia.com/gpu" in fleet.run_on(name, ["cat", "/etc/cdi/nvidia.yaml"]).stdout
    assert _changed(*words) == [0, 0]


@needs_sudo
@pytest.mark.usefixtures("toolkit")
def test_a_newer_toolkit_keeps_the_cdi_specification_by_its_service() -> None:
    for name in HOSTS:
        fleet.run_on(name, ["sh", "-ec", REFRESH])
    assert _changed("--yes", "--tags", "cdi", "--set", "engine=podman") == [1, 1]
    asked = fleet.run_on("spark-01", ["cat", "/run/asked"]).stdout.split("\n")
    assert "enable --now nvidia-cdi-refresh.path nvidia-cdi-refresh.service" in asked
    assert fleet.run_on("spark-01", ["ls", "/etc/cdi"], check=False).returncode


@pytest.fixture
def password(lab: LabFleet, tmp_path: Path) -> Iterator[str]:
    """Let sudo on all hosts ask for a password; yields the value of the variable for it."""
    kept = tmp_path / "kept"
    kept.write_text("two words, ąćé")
    kept.chmod(0o600)
    for host in HOSTS:
        fleet.run_on(host, ["sh", "-c", ASK, "sh", f"nvidia:{kept.read_text()}"])
    yield f"ansible_become_password={{from_file: {kept}}}"
    for host in HOSTS:
        fleet.run_on(host, ["rm", "-f", RULE, ASKING])


@needs_sudo
def test_a_password_prepares_hosts_whose_sudo_asks_for_one(password: str) -> None:
    refused = _type("hosts.prepare", "--yes", "--tags", "caches")
    assert refused.returncode == 2
    assert refused.stdout.count("sudo asks for a password") == 2
    _, result = _json("hosts.check", "--set", "drop_caches=true", "--set", password)
    seen = [one["seen"] for one in result["verdicts"] if one["check"] == "host.drop_caches"]
    assert seen == ["allowed with the password"] * 2
    assert _changed("--yes", "--tags", "caches", "--set", password) == [1, 1]
    assert _changed("--yes", "--tags", "caches", "--set", password) == [0, 0]
    _, result = _json("hosts.check", "--set", "drop_caches=true")
    seen = [one["seen"] for one in result["verdicts"] if one["check"] == "host.drop_caches"]
    assert seen == ["allowed"] * 2


@needs_sudo
def test_a_wrong_password_counts_once(password: str, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("another")
    done = _type("hosts.prepare", "--yes", "--tags", "caches", "--set", password)
    assert done.returncode == 2
    assert done.stdout.count("sudo: incorrect password") == 2
