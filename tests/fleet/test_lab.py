"""The lab boots Sparks that look and behave like Sparks, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from sparkfleet.errors import UsageError
from sparkfleet.lab import fleet, paths
from sparkfleet.lab.plan import plan_fleet
from tests.commandline import PATIENCE, becomes

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]

OUTPUTS = Path(__file__).parents[1] / "outputs"
JUMBO = ["ping", "-c", "1", "-W", "10", "-M", "do", "-s", "8972"]


@pytest.fixture(scope="module", autouse=True)
def removed() -> Iterator[None]:
    """Begin without a fleet, and leave none."""
    fleet.remove_fleet()
    yield
    fleet.remove_fleet()


@pytest.fixture
def pair(removed: None) -> fleet.LabFleet:
    """Return a fleet of two: the one that another test booted, if it is as good as new."""
    return fleet.start_fleet()


def _ssh(running: fleet.LabFleet, host: int, command: str) -> subprocess.CompletedProcess[str]:
    options = (f"UserKnownHostsFile={running.known_hosts}", "StrictHostKeyChecking=yes",
               "BatchMode=yes", "LogLevel=ERROR")  # fmt: skip
    flags = [word for option in options for word in ("-o", option)]
    address = f"nvidia@{running.hosts[host].address}"
    return subprocess.run(
        ["ssh", "-F", "none", "-i", str(running.key), *flags, address, command],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def _traces() -> dict[str, object]:
    """Return everything by which a lab could be noticed on this machine."""
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    home = Path("/proc/self/ns/net").stat().st_ino
    foreign = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "ns/net").stat().st_ino != home:
                foreign.append((process.name, (process / "cmdline").read_text()))
        except OSError:
            continue
    return {
        "mounts": sorted(mounts),
        "links": sorted(one.name for one in Path("/sys/class/net").iterdir()),
        "namespaces": sorted(Path("/run/netns").iterdir()) if Path("/run/netns").exists() else None,
        "run": sorted(one.name for one in Path("/run").iterdir()),
        "layers": paths.LAYERS.exists(),
        "processes in other networks": foreign,
    }


def test_a_plain_ssh_client_gets_in_as_the_user(pair: fleet.LabFleet) -> None:
    said = _ssh(pair, 1, "id -un; hostname; pwd; echo $SSH_CONNECTION; ls -A")
    assert said.stdout.splitlines()[:3] == ["nvidia", "spark-02", "/home/nvidia"], said.stderr
    assert said.stdout.splitlines()[4:] == [".ssh"]


def test_the_root_user_and_other_keys_stay_out(pair: fleet.LabFleet, tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    other = fleet.LabFleet(hosts=pair.hosts, cables="", known_hosts=pair.known_hosts, key=key)
    assert "Permission denied (publickey)" in _ssh(other, 0, "true").stderr


def test_interfaces_read_like_those_of_a_spark(pair: fleet.LabFleet) -> None:
    lines = _ssh(pair, 0, "ip -br link").stdout.splitlines()
    seen = [(line.split()[0].split("@")[0], line.split()[1], line.split()[3]) for line in lines]
    up = "<BROADCAST,MULTICAST,UP,LOWER_UP>"
    dark = "<NO-CARRIER,BROADCAST,MULTICAST,UP>"
    assert seen == [
        ("lo", "UNKNOWN", "<LOOPBACK,UP,LOWER_UP>"),
        ("enP7s7", "UP", up),
        ("enp1s0f0np0", "DOWN", dark),
        ("enp1s0f1np1", "UP", up),
        ("enP2p1s0f0np0", "DOWN", dark),
        ("enP2p1s0f1np1", "UP", up),
        ("wlP9s9", "DOWN", dark),
        ("docker0", "DOWN", dark),
    ]


def test_the_default_pair_has_its_cable_in_different_cages(pair: fleet.LabFleet) -> None:
    rails = [[(rail.interface, rail.address) for rail in host.rails] for host in pair.hosts]
    assert rails == [
        [("enp1s0f1np1", "10.78.1.1"), ("enP2p1s0f1np1", "10.78.2.1")],
        [("enp1s0f0np0", "10.78.1.2"), ("enP2p1s0f0np0", "10.78.2.2")],
    ]
    for number, host in enumerate(pair.hosts):
        said = _ssh(pair, number, "ip -4 -br addr").stdout
        for rail in host.rails:
            assert f"{rail.address}/24" in said


def test_hosts_have_names_ids_and_host_keys_of_their_own(pair: fleet.LabFleet) -> None:
    ask = "hostname; cat /etc/machine-id /etc/hostname; grep SERIAL /etc/dgx-release; nvidia-smi -L"
    first, second = (_ssh(pair, number, ask).stdout.splitlines() for number in (0, 1))
    assert len(first) == len(second) == 5
    assert not set(first) & set(second)
    keys = {line.split()[2] for line in pair.known_hosts.read_text().splitlines()}
    assert len(keys) == 2


def test_hosts_see_their_own_processes_and_memory_only(pair: fleet.LabFleet) -> None:
    said = _ssh(pair, 0, "touch /dev/shm/a /tmp/a; ls -d /proc/[0-9]* | wc -l; cat /proc/1/comm")
    assert int(said.stdout.split()[0]) < 12
    assert said.stdout.split()[1] == "sfl-init"
    assert " a" not in _ssh(pair, 1, "echo $(ls -A /dev/shm /tmp)").stdout


def test_orphans_are_reaped(pair: fleet.LabFleet) -> None:
    _ssh(pair, 0, "for i in 1 2 3; do (setsid sleep 0.1 &) ; done")

    def sleeping() -> bool:  # a process that is not reaped keeps its name
        return "(sleep)" in _ssh(pair, 0, "cat /proc/[0-9]*/stat").stdout

    assert becomes(lambda: not sleeping())


def test_the_outside_world_is_unreachable_at_once(pair: fleet.LabFleet) -> None:
    said = _ssh(pair, 0, "ping -c 1 -W 5 192.0.2.1")
    assert "Destination Host Unreachable" in said.stdout


def test_the_machines_python_and_a_cached_engine_run_for_the_user(pair: fleet.LabFleet) -> None:
    venvs = sorted(paths.CACHE.glob("engine-*/bin/python"))
    for python in ("python3", Path(sys.executable).resolve(), *venvs):
        said = _ssh(pair, 0, f"{python} -c 'print(6 * 7)'")
        assert said.stdout == "42\n", said.stderr


def test_the_key_is_the_callers_alone(pair: fleet.LabFleet) -> None:
    assert pair.key.stat().st_mode & 0o777 == 0o600
    assert pair.key.stat().st_uid == os.getuid()


def test_the_inventory_leads_to_the_hosts(pair: fleet.LabFleet) -> None:
    sparks = yaml.safe_load(pair.inventory.read_text())["sparks"]
    addresses = {name: values["ansible_host"] for name, values in sparks["hosts"].items()}
    assert addresses == {host.name: host.address for host in pair.hosts}


def test_up_again_changes_nothing(pair: fleet.LabFleet) -> None:
    assert fleet.start_fleet() == pair == fleet.read_fleet()


def test_up_of_another_size_replaces_the_fleet(pair: fleet.LabFleet) -> None:
    grown = fleet.start_fleet(3)
    assert [host.name for host in grown.hosts] == ["spark-01", "spark-02", "spark-03"]
    assert grown.cables == "switch"
    assert not {host.pid1 for host in pair.hosts} & {host.pid1 for host in grown.hosts}


def test_up_replaces_a_fleet_that_has_lost_a_host(pair: fleet.LabFleet) -> None:
    os.kill(pair.hosts[0].pid1, signal.SIGKILL)

    def alive() -> list[bool]:
        seen = fleet.read_fleet()
        assert seen is not None
        return [host.alive for host in seen.hosts]

    assert becomes(lambda: alive() == [False, True])
    assert all(host.alive for host in fleet.start_fleet().hosts)


@pytest.mark.parametrize(
    ("hosts", "cables"),
    [(2, "straight"), (2, "both"), (2, "switch"), (3, "ring"), (4, "ring"), (4, "switch")],
)
def test_every_wire_of_a_shape_carries_jumbo_frames(hosts: int, cables: str) -> None:
    try:
        running = fleet.start_fleet(hosts, cables=cables)
        shape = plan_fleet(hosts, cables)
        assert sum(len(host.rails) for host in running.hosts) == sum(
            len(wire.ends) for wire in shape.wires
        )
        for wire in shape.wires:
            (near, _), *others = shape.ends(wire)
            for _, port in others:
                assert " 1 received" in fleet.run_on(near.name, [*JUMBO, str(port.address)]).stdout
    finally:
        fleet.remove_fleet()


def test_a_single_spark_has_no_cable() -> None:
    try:
        (host,) = fleet.start_fleet(1).hosts
        assert host.rails == ()
        states = fleet.run_on(
            host.name, ["bash", "-c", "cat /sys/class/infiniband/*/ports/1/state"]
        )
        assert states.stdout == "1: DOWN\n" * 4
        with pytest.raises(UsageError, match="mtu needs 1 cabled rails, and spark-01 has 0"):
            fleet.set_fault("spark-01", "mtu")
    finally:
        fleet.remove_fleet()


def test_down_leaves_nothing() -> None:
    fleet.remove_fleet()
    before = _traces()
    fleet.start_fleet(3)
    fleet.set_fault("spark-02", "link-local")
    assert _traces() != before
    fleet.remove_fleet()
    assert _traces() == before
    assert fleet.read_fleet() is None
    fleet.remove_fleet()
    assert _traces() == before


@pytest.mark.parametrize(
    "point",
    [
        paths.LOCK,
        paths.LAYERS,
        paths.NAMESPACES / "sfl01",
        paths.NAMESPACES / "sfl08",
        paths.KNOWN_HOSTS,
        paths.STATE,
    ],
)
def test_down_leaves_nothing_of_a_boot_that_was_killed(point: Path) -> None:
    fleet.remove_fleet()
    before = _traces()
    boot = "from sparkfleet.lab import fleet; fleet.start_fleet(8)"
    with subprocess.Popen([sys.executable, "-c", boot], cwd=Path(__file__).parents[2]) as process:
        while not point.exists():
            assert process.poll() is None or point.exists()  # it may end between two looks
        process.kill()
    fleet.remove_fleet()
    assert _traces() == before


def test_down_leaves_nothing_of_a_lab_that_is_half_removed() -> None:
    fleet.remove_fleet()
    before = _traces()
    running = fleet.start_fleet(3)
    os.kill(running.hosts[0].pid1, signal.SIGKILL)
    subprocess.run(["ip", "netns", "delete", "sfl02"], check=True)
    subprocess.run(["ip", "link", "delete", "sflctl"], check=True)
    (paths.RUN / "fleet.json").write_text("{")
    fleet.remove_fleet()
    assert _traces() == before


def test_a_failed_boot_says_why_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.remove_fleet()
    before = _traces()
    monkeypatch.setattr("sparkfleet.lab.host.build._answer_unreachable", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fleet.start_fleet()
    assert _traces() == before


def test_thirty_two_hosts_boot_and_answer() -> None:
    try:
        running = fleet.start_fleet(32)
        assert _ssh(running, 31, "hostname").stdout == "spark-32\n"
        assert " 1 received" in fleet.run_on("spark-32", [*JUMBO, "10.78.2.1"]).stdout
    finally:
        fleet.remove_fleet()


@pytest.mark.parametrize(
    ("command", "recorded"),
    [
        ("ibdev2netdev | sort", "ibdev2netdev.good-f1-one-cable.txt"),
        ("rdma link | sort", "rdma-link.good-f1-padded.txt"),
        ("nvidia-smi topo -m", "nvidia-smi.topo-m.txt"),
        (
            "nvidia-smi --query-gpu=name,compute_cap,driver_version --format=csv",
            "nvidia-smi.query-name-cap-driver.csv",
        ),
        (
            "nvidia-smi --query-gpu=memory.free,memory.total,memory.used --format=csv",
            "nvidia-smi.query-memory-NA.csv",
        ),
        (
            "nvidia-smi --query-gpu=name,compute_cap --format=csv,noheader",
            "nvidia-smi.query-name-cap-noheader.csv",
        ),
    ],
)
def test_tools_say_what_was_recorded(pair: fleet.LabFleet, command: str, recorded: str) -> None:
    said = _ssh(pair, 0, command).stdout
    lines = (OUTPUTS / recorded).read_text().splitlines()
    wanted = [line.split() for line in lines if not line.startswith("#")]
    if "sort" in command:
        wanted.sort()
    assert [line.split() for line in said.splitlines()] == wanted


@pytest.mark.parametrize(
    ("command", "recorded"),
    [
        ("ibv_devinfo", "ibv_devinfo.good-f1-mtu9000.txt"),
        ("ibstat", "ibstat.good-one-cable-f0.txt"),
        ("nvidia-smi", "nvidia-smi.good-idle-580.142.txt"),
    ],
)
def test_long_outputs_have_the_recorded_lines(
    pair: fleet.LabFleet, command: str, recorded: str
) -> None:
    said = {_shape(line) for line in _ssh(pair, 0, command).stdout.splitlines()}
    lines = (OUTPUTS / recorded).read_text().splitlines()
    wanted = {_shape(line) for line in lines if not line.startswith("#") and "/usr/" not in line}
    assert wanted <= said


def _shape(line: str) -> str:
    """Return a line without the numbers that belong to one machine or moment."""
    if "Driver Version" in line or re.match(r"\w{3} \w{3} +\d+ ", line):
        return "varies"
    return re.sub(r"(0x)?[0-9a-f]{4}(:?[0-9a-f]{4}){3}", "GUID", line)
