"""`onhost/fabric/netconfig.py` on a real kernel: in network and mount namespaces of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sparkfleet.commands import build_script_command

RAIL = "rail0"
FILE = "/etc/netplan/40-cx7.yaml"
STAGED = "/run/netplan/40-cx7.yaml"
ADDRESS = "192.168.100.10/24"
OLD = "network: {version: 2}\n"
NEW = "network:\n  version: 2\n  ethernets: {}\n"
ARP = "net.ipv4.conf.all.arp_ignore"
ROOM = f"""
mount -t tmpfs room /run
mkdir /run/upper /run/work /run/bin
mount -t overlay room -o lowerdir=/etc,upperdir=/run/upper,workdir=/run/work /etc
mount -t tmpfs room /var/lib
mkdir -p /etc/netplan
ip link add {RAIL} mtu 1500 type veth peer name far mtu 9000
ip link set {RAIL} addrgenmode none up
ip link set far addrgenmode none up
cat >/run/bin/netplan <<'END'
#!/bin/sh
echo "$@" >>/run/applied
[ ! -e /run/broken ] || exit 1
[ -e {STAGED} ] || [ -e {FILE} ] || exit 0
ip link set {RAIL} mtu 9000
ip addr replace {ADDRESS} brd + dev {RAIL}
END
chmod +x /run/bin/netplan
until [ "$(ip -br link show up | grep -c ' UP ')" = 2 ]; do sleep 0.02; done
echo ready
exec sleep infinity
"""

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="namespaces need root"
)


class Room:
    """The namespaces, by a process in them."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def run(self, *argv: str, given: bytes = b"") -> str:
        """Run a program in them and return what it prints."""
        enter = ["nsenter", f"--target={self.pid}", "--net", "--mount"]
        path = "/run/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        done = subprocess.run(
            [*enter, *argv], input=given, capture_output=True, env={"PATH": path}, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def ask(self, **request: Any) -> dict[str, Any]:
        """Run the program with a request and return its answer."""
        command = build_script_command("fabric/netconfig", request)
        return dict(json.loads(self.run(*command.argv, given=command.input)))

    def list_drift(self) -> list[str]:
        """Return how files and rails differ from what was kept."""
        command = build_script_command("fabric/applied", {})
        return list(json.loads(self.run(*command.argv, given=command.input))["differences"])

    def state(self) -> tuple[str, str, str]:
        """Return files with their modes, addresses and the sysctl."""
        files = "find /etc/netplan /run/netplan -type f -exec stat -c '%n %a' {} + -exec cat {} +"
        return (
            self.run("sh", "-c", f"{files} 2>/dev/null; true"),
            self.run("ip", "-j", "addr"),
            self.run("cat", "/proc/sys/net/ipv4/conf/all/arp_ignore"),
        )


@pytest.fixture
def room() -> Iterator[Room]:
    argv = ["unshare", "--net", "--mount", "--propagation=private", "sh", "-ec", ROOM]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            process.kill()
            pytest.skip(f"no namespaces here: {process.stderr and process.stderr.read()!r}")
        yield Room(process.pid)
        process.kill()


def _change(change_id: str = "5fa1", **changes: Any) -> dict[str, Any]:
    file = {"path": FILE, "staged": STAGED, "before": None, "after": NEW}
    request: dict[str, Any] = {
        "do": "try",
        "id": change_id,
        "seconds": 300,
        "management": "192.0.2.1",
        "files": [file],
        "rails": {RAIL: {"addresses": [ADDRESS], "mtu": 9000}},
        "sysctls": {ARP: "1"},
        "apply": [["netplan", "apply"]],
        "undo": [["netplan", "apply"]],
        "keep": [],
    }
    return {**request, **changes}


def _becomes(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60
    while not (held := holds()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return held


def test_a_change_is_tried_in_run_only_and_undone_byte_for_byte(room: Room) -> None:
    before = room.state()
    assert room.ask(**_change()) == {"failed": "", "left": []}
    assert ADDRESS in room.run("ip", "-br", "addr")
    assert room.run("ls", "/etc/netplan") == ""
    assert room.ask(do="look")["pending"] == "5fa1"
    assert room.ask(do="undo", id="5fa1") == {"why": "undone", "left": []}
    assert room.state() == before


def test_the_timer_undoes_what_is_not_confirmed(room: Room) -> None:
    before = room.state()
    assert room.ask(**_change(seconds=0.5))["failed"] == ""
    assert _becomes(lambda: not room.ask(do="look")["pending"])
    assert room.state() == before
    refusal = room.ask(do="confirm", id="5fa1")["error"]
    assert refusal == "the change was undone on this host: not confirmed within 0.5 s"


def test_a_confirmed_change_is_in_etc_and_is_reverted_byte_for_byte(room: Room) -> None:
    room.run("sh", "-c", f"printf '%s' '{OLD}' >{FILE}; chmod 640 {FILE}")
    room.run("ip", "addr", "add", "10.9.8.7/24", "dev", RAIL)  # without a broadcast address
    before = room.state()
    file = {"path": FILE, "staged": STAGED, "before": OLD, "after": NEW}
    assert room.ask(**_change(files=[file]))["failed"] == ""
    assert room.ask(do="confirm", id="5fa1") == {"kept": [FILE]}
    assert room.run("cat", FILE) == NEW
    assert room.run("ls", "/run/netplan") == ""
    assert "10.9.8.7" not in room.run("ip", "-br", "addr")
    assert room.ask(do="look")["saved"]["files"] == {FILE: OLD}
    assert room.ask(do="restore", management="192.0.2.1") == {"left": []}
    assert room.state() == before
    assert room.ask(do="look")["saved"] is None


def test_drift_of_files_and_rails_is_found_without_root(room: Room) -> None:
    assert room.list_drift() == []
    room.ask(**_change())
    assert room.list_drift() == []
    assert "error" not in room.ask(do="confirm", id="5fa1")
    assert room.list_drift() == []
    assert "644" in room.run("stat", "-c", "%a", "/var/lib/sparkfleet/links-applied.json")
    room.run("ip", "addr", "del", ADDRESS, "dev", RAIL)
    room.run("sh", "-c", f"echo '# mine' >>{FILE}")
    assert room.list_drift() == [
        f"{FILE} has changed since links.apply",
        f"{RAIL} has no address, not {ADDRESS}",
    ]
    room.run("rm", FILE)
    assert room.list_drift()[0] == f"{FILE} is missing since links.apply"
    room.ask(do="restore", management="192.0.2.1")
    assert room.list_drift() == []


def test_a_command_that_fails_undoes_the_change_at_once(room: Room) -> None:
    room.run("touch", "/run/broken")
    before = room.state()
    answer = room.ask(**_change())
    assert answer == {"failed": "netplan apply: exit status 1", "left": []}
    assert room.state() == before
    assert room.ask(do="look")["pending"] == ""


@pytest.mark.parametrize(
    ("prepare", "change", "problem"),
    [
        ("true", {"files": [{"path": FILE, "staged": STAGED, "before": OLD, "after": NEW}]},
         f"{FILE} was changed since it was read"),
        (f"ip addr add 192.0.2.1/24 dev {RAIL}", {},
         f"{RAIL} has 192.0.2.1, through which this host is reached"),
        (f"ip addr add 10.1.1.1/24 dev {RAIL}; ip route add default via 10.1.1.2", {},
         f"the default route is on {RAIL}"),
    ],
    ids=["a file that changed", "the management address", "the default route"],
)  # fmt: skip
def test_a_change_is_refused_before_anything_is_touched(
    room: Room, prepare: str, change: dict[str, Any], problem: str
) -> None:
    room.run("sh", "-c", prepare)
    before = room.state()
    assert room.ask(**_change(**change))["error"] == problem
    assert room.state() == before


def test_only_one_change_is_tried_at_a_time(room: Room) -> None:
    room.ask(**_change())
    assert room.ask(**_change("other"))["error"] == "change 5fa1 is waiting to be confirmed"
    assert "is waiting to be confirmed" in room.ask(do="restore", management="192.0.2.1")["error"]


def test_addresses_are_renewed_in_their_order(room: Room) -> None:
    for address in ("10.1.1.1/24", "10.1.1.2/24"):
        room.run("ip", "addr", "add", address, "brd", "+", "dev", RAIL)
    before = room.state()
    assert room.ask(do="renew", rails=[RAIL], management="192.0.2.1") == {"left": []}
    assert room.state() == before


def test_what_carries_the_login_is_not_restored_or_renewed(room: Room) -> None:
    assert room.ask(**_change())["failed"] == ""
    room.ask(do="confirm", id="5fa1")
    before = room.state()
    login = ADDRESS.partition("/")[0]
    for request in ({"do": "restore"}, {"do": "renew", "rails": [RAIL]}):
        refusal = room.ask(**request, management=login)["error"]
        assert refusal == f"{RAIL} has {login}, through which this host is reached"
    assert room.state() == before
