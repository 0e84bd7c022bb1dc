"""Every fault shows on the host in the way that a real one does, and does not show once cleared."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from sparkfleet.errors import UsageError
from sparkfleet.lab import fleet
from sparkfleet.lab.faults.catalogue import FAULTS
from tests.commandline import PATIENCE, becomes

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]

RAIL = "enp1s0f1np1"
TWIN = "enP2p1s0f1np1"
PORT = "/sys/class/infiniband/rocep1s0f1/ports/1"
PING = "ping -c 2 -i 0.05 -W 0.3 -M do"


@dataclass(frozen=True, kw_only=True)
class Sign:
    """A shell command on spark-01, and what its output holds while broken, and while whole."""

    command: str
    broken: str
    whole: str


SIGNS = {
    "link-down": Sign(
        command=f"cat {PORT}/state /sys/class/net/{TWIN}/operstate; ethtool {RAIL}",
        broken=r"1: DOWN\ndown\n(.|\n)*No cable",
        whole=r"4: ACTIVE\nup\n(.|\n)*200000Mb/s",
    ),
    "swapped-cages": Sign(
        command="cat /sys/class/net/enp1s0f0np0/operstate; ip -br addr show up",
        broken=rf"\Aup\n(.|\n)*{RAIL}@\S+ +DOWN ",
        whole=rf"\Adown\n(.|\n)*{RAIL}@\S+ +UP +10.78.1.1/24",
    ),
    "nic-gone": Sign(
        command="ls /sys/class/net /sys/class/infiniband; cat /sys/class/net/enp1s0f1np1/operstate",
        broken=r"\A/sys/class/infiniband:\n\n/sys/class/net:\ndocker0\nenP7s7\nlo\nwlP9s9\n\Z",
        whole=r"rocep1s0f1\n(.|\n)*enp1s0f1np1\n(.|\n)*\nup\n",
    ),
    "rail-down": Sign(
        command=f"ip -br link show {TWIN}; cat /sys/class/infiniband/roceP2p1s0f1/ports/1/state",
        broken=r" DOWN .*<BROADCAST,MULTICAST>(.|\n)*1: DOWN",
        whole=r" UP (.|\n)*4: ACTIVE",
    ),
    "mtu": Sign(
        command=f"cat /sys/class/net/{RAIL}/mtu; ibv_devinfo -d rocep1s0f1 | grep active_mtu",
        broken=r"1500\n.*1024 \(3\)",
        whole=r"9000\n.*4096 \(5\)",
    ),
    "jumbo-blackhole": Sign(
        command=(
            f"cat /sys/class/net/{RAIL}/mtu; {PING} -s 8972 10.78.1.2; {PING} -s 1400 10.78.1.2"
        ),
        broken=r"9000\n(.|\n)* 0 received(.|\n)* 2 received",
        whole=r"9000\n(.|\n)* 2 received(.|\n)* 2 received",
    ),
    "loss": Sign(
        command=(
            f"before=$(cat {PORT}/hw_counters/packet_seq_err);"
            " ping -c 60 -i 0.005 -W 0.2 10.78.1.2; sleep 0.5;"
            f" test $(cat {PORT}/hw_counters/packet_seq_err) -gt $before && echo counted"
        ),
        broken=r" [2-7]\d(\.\d+)?% packet loss(.|\n)*counted",
        whole=r" 0% packet loss(.|\n)*ms\n\Z",
    ),
    "shape": Sign(
        command=f"tc qdisc show dev {RAIL}; cat /sys/class/net/{RAIL}/speed",
        broken=r"rate 1Gbit (.|\n)*200000",
        whole=r"noqueue(.|\n)*200000",
    ),
    "no-rdma": Sign(
        command="ls /sys/class/infiniband; rdma link; ibv_devinfo -l; cat /sys/class/net/*/carrier",
        broken=r"\A0 HCA found:\n",
        whole=r"rocep1s0f1\n(.|\n)*4 HCAs found",
    ),
    "no-address": Sign(
        command=f"ip -4 -br addr show {RAIL}; cat {PORT}/gids/3",
        broken=r"\A0000:0000:0000:0000:0000:0000:0000:0000\n",
        whole=r"10\.78\.1\.1/24(.|\n)*ffff:0a4e:0101\n",
    ),
    "wrong-subnet": Sign(
        command=f"ip -4 -br addr show {RAIL}; cat {PORT}/gids/3",
        broken=r"10\.78\.101\.1/24(.|\n)*ffff:0a4e:6501\n",
        whole=r"10\.78\.1\.1/24(.|\n)*ffff:0a4e:0101\n",
    ),
    "same-subnet": Sign(
        command=f"ip -4 -br addr show {TWIN}",
        broken=r" 10\.78\.1\.101/24",
        whole=r" 10\.78\.2\.1/24",
    ),
    "duplicate-address": Sign(
        command=f"ip -4 -br addr show {RAIL}",
        broken=r" 10\.78\.1\.2/24",
        whole=r" 10\.78\.1\.1/24",
    ),
    "link-local": Sign(
        command=f"ip -4 -br addr show {TWIN}; show_gids",
        broken=r"169\.254\.127\.30/16 10\.78\.2\.1/24(.|\n)*\t5\t.*169\.254\.127\.30.*v2",
        whole=r"10\.78\.2\.1/24 *\n",
    ),
    "gid-moved": Sign(
        command=f"cat {PORT}/gids/3 {PORT}/gids/5 {PORT}/gid_attrs/types/5",
        broken=r"\A0000:[0:]*\n.*ffff:0a4e:0101\nRoCE v2\n",
        whole=r"ffff:0a4e:0101\n0000:[0:]*\n\Z",
    ),
    "gid-hole": Sign(
        command=f"ip -4 -br addr show {RAIL}; show_gids",
        broken=r"10\.78\.1\.1/24(.|\n)*n_gids_found=10",
        whole=r"10\.78\.1\.1/24(.|\n)*n_gids_found=12",
    ),
    "firewall": Sign(
        command="nft list ruleset; ping -c 1 -W 1 10.78.1.2",
        broken=r"tcp dport 1024-65535 (.|\n)* 1 received",
        whole=r"\APING (.|\n)* 1 received",
    ),
    "wifi-route": Sign(
        command="ip route get 192.0.2.1; cat /sys/class/net/wlP9s9/operstate",
        broken=r"dev wlP9s9 src 10\.78\.200\.1(.|\n)*\nup\n",
        whole=r"dev enP7s7 src 10\.78\.0\.1(.|\n)*\ndown\n",
    ),
    "no-default-route": Sign(
        command="ip route get 192.0.2.1 2>&1",
        broken=r"unreachable",
        whole=r"dev enP7s7",
    ),
    "management-lost": Sign(
        command="cat /sys/class/net/enP7s7/carrier; ping -c 1 -W 1 10.78.0.2",
        broken=r"\A0\n(.|\n)* 0 received",
        whole=r"\A1\n(.|\n)* 1 received",
    ),
    "disk-full": Sign(
        command=(
            "df --output=pcent /home/nvidia; touch ~nvidia/x; head -c 9000 /dev/zero >~nvidia/x"
            " && echo written; rm ~nvidia/x"
        ),
        broken=r"100%\n\Z",
        whole=r" 1%\nwritten\n",
    ),
    "cma-zero": Sign(
        command="grep Cma /proc/meminfo",
        broken=r"CmaTotal: +0 kB\nCmaFree: +220924 kB\n",
        whole=r"CmaTotal: +131072 kB\nCmaFree: +\d+ kB\n",
    ),
    "memory": Sign(
        command="grep -c : /proc/meminfo; free -k | tail -2; grep MemAv /proc/meminfo",
        broken=r" 131072\n(.|\n)*MemAvailable: +131072 kB\n\Z",
        whole=r"MemAvailable: +\d{7,} kB\n\Z",
    ),
    "gpu-empty": Sign(
        command=(
            "find='pgrep -f ^VLLM::Worker_TP0'; $find >/dev/null || "
            "{ setsid bash -c 'exec -a VLLM::Worker_TP0 sleep 900' >/dev/null 2>&1 & }; "
            "until $find >/dev/null; do :; done; "
            "nvidia-smi --query-compute-apps=pid,process_name --format=csv"
        ),
        broken=r"\Apid, process_name.*\n\Z",
        whole=r", VLLM::Worker_TP0, ",
    ),
}
BY_HAND = {"ssh-dead", "power-off"}


@pytest.fixture(scope="module", autouse=True)
def pair() -> Iterator[fleet.LabFleet]:
    yield fleet.start_fleet()
    fleet.remove_fleet()


def _shows(sign: str, command: str) -> None:
    """Fail unless the command's output comes to hold `sign`: /proc/meminfo changes every 2 s."""

    def said() -> str:
        return fleet.run_on("spark-01", ["bash", "-c", command], check=False).stdout

    assert becomes(lambda: re.search(sign, said()) is not None), said()


def test_every_fault_has_a_sign() -> None:
    assert {*SIGNS, *BY_HAND} == set(FAULTS)


@pytest.mark.parametrize("kind", SIGNS)
def test_a_fault_shows_and_clears(kind: str) -> None:
    if missing := [tool for tool in FAULTS[kind].needs if not shutil.which(tool)]:
        pytest.skip(f"this machine has no {missing[0]}")
    sign = SIGNS[kind]
    _shows(sign.whole, sign.command)
    fleet.set_fault("spark-01", kind)
    try:
        _shows(sign.broken, sign.command)
        assert _first().faults == (kind,)
    finally:
        fleet.set_fault("spark-01", kind, clear=True)
    _shows(sign.whole, sign.command)
    assert _first().faults == ()


def test_a_pulled_cable_is_dark_at_both_ends() -> None:
    peer = ["cat", "/sys/class/infiniband/rocep1s0f0/ports/1/state"]
    fleet.set_fault("spark-01", "link-down")
    assert fleet.run_on("spark-02", peer).stdout == "1: DOWN\n"
    fleet.set_fault("spark-01", "link-down", clear=True)
    assert fleet.run_on("spark-02", peer).stdout == "4: ACTIVE\n"


def test_a_firewall_drops_new_connections_on_the_fabric_only() -> None:
    listen = "import socket, time; s = socket.create_server(('', 29500)); time.sleep(600)"
    run = f'setsid python3 -c "{listen}" >/dev/null 2>&1 & echo $!'
    pid = fleet.run_on("spark-01", ["bash", "-c", run]).stdout.strip()
    reach = "timeout 0.5 bash -c '</dev/tcp/{}/29500' && echo open || echo shut"

    def reached(address: str) -> str:
        return fleet.run_on("spark-02", ["bash", "-c", reach.format(address)]).stdout.strip()

    try:
        assert becomes(lambda: reached("10.78.1.1") == reached("10.78.0.1") == "open")
        fleet.set_fault("spark-01", "firewall")
        assert reached("10.78.1.1") == "shut"
        assert becomes(lambda: reached("10.78.0.1") == "open")
    finally:
        fleet.set_fault("spark-01", "firewall", clear=True)
        fleet.run_on("spark-01", ["kill", pid])


def test_a_dead_sshd_refuses_while_the_host_answers_pings() -> None:
    fleet.set_fault("spark-01", "ssh-dead")
    with pytest.raises(ConnectionRefusedError):
        _greeting()
    assert "1 received" in fleet.run_on("spark-02", ["ping", "-c1", "-W10", "10.78.0.1"]).stdout
    fleet.set_fault("spark-01", "ssh-dead", clear=True)
    assert _greeting() == b"SSH-"


def test_a_host_without_power_is_off_and_keeps_its_disk() -> None:
    fleet.run_on("spark-01", ["touch", "/home/nvidia/kept", "/etc/kept"])
    fleet.set_fault("spark-01", "power-off")
    fleet.set_fault("spark-01", "power-off")
    assert _first().alive is False
    ping = fleet.run_on("spark-02", ["ping", "-c1", "-W0.2", "10.78.0.1"], check=False)
    assert "0 received" in ping.stdout
    state = fleet.run_on("spark-02", ["cat", "/sys/class/infiniband/rocep1s0f0/ports/1/state"])
    assert state.stdout == "1: DOWN\n"
    with pytest.raises(UsageError, match="spark-01 is off"):
        fleet.run_on("spark-01", ["true"])
    fleet.set_fault("spark-01", "power-off", clear=True)
    assert _greeting() == b"SSH-"
    fleet.run_on("spark-01", ["ls", "/home/nvidia/kept", "/etc/kept"])
    state = fleet.run_on("spark-02", ["cat", "/sys/class/infiniband/rocep1s0f0/ports/1/state"])
    assert state.stdout == "4: ACTIVE\n"


def test_faults_outlive_a_reboot() -> None:
    kinds = ("no-rdma", "mtu", "gid-moved")
    for kind in kinds:
        fleet.set_fault("spark-01", kind)
    fleet.set_fault("spark-01", "power-off")
    fleet.set_fault("spark-01", "power-off", clear=True)
    assert _first().faults == kinds
    _shows(SIGNS["no-rdma"].broken, SIGNS["no-rdma"].command)
    fleet.set_fault("spark-01", "no-rdma", clear=True)
    for kind in kinds[1:]:
        _shows(SIGNS[kind].broken.replace("1024", r"\d+"), SIGNS[kind].command)
        fleet.set_fault("spark-01", kind, clear=True)
        _shows(SIGNS[kind].whole, SIGNS[kind].command)


def test_a_host_whose_first_process_was_killed_boots_again() -> None:
    os.kill(_first().pid1, signal.SIGKILL)
    assert becomes(lambda: not _first().alive)
    with pytest.raises(UsageError, match="spark-01 is off"):
        fleet.set_fault("spark-01", "mtu")
    fleet.set_fault("spark-01", "power-off", clear=True)
    assert _greeting() == b"SSH-"


def test_breaking_twice_and_clearing_twice_is_as_good_as_once() -> None:
    for clear in (False, False, True, True):
        fleet.set_fault("spark-01", "link-local", clear=clear)
    _shows(SIGNS["link-local"].whole, SIGNS["link-local"].command)


def _first() -> fleet.LabHost:
    running = fleet.read_fleet()
    assert running is not None
    return running.hosts[0]


def _greeting() -> bytes:
    with socket.create_connection(("10.78.0.1", 22), timeout=PATIENCE) as connection:
        return connection.recv(4)
