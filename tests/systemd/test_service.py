"""`cluster.enable` under a real systemd, journald and logind; with the stand-in engine.

Not part of `./test`: `python -m pytest tests/systemd`, as root.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.commandline import within
from tests.standin import engine
from tests.systemd import serving
from tests.systemd.account import KILL, LATE, Account
from tests.systemd.answers import check_answers
from tests.systemd.machine import PLAIN_USER, SUDO_USER, SystemdMachine, find_missing
from tests.systemd.serving import HOST, INVENTORY, SERVICE

MISSING = find_missing()
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}"),
    pytest.mark.timeout(900),
]
SYSTEM_UNIT = f"/etc/systemd/system/{SERVICE}"
RANKS = "pgrep -f '[b]in/vllm serve'"
IPC = "/dev/shm/sem.of-a-rank"
FAILED = "systemctl --failed --no-legend"


@pytest.fixture(scope="module")
def machine() -> Iterator[SystemdMachine]:
    made = SystemdMachine()
    try:
        serving.install(made)
        made.boot()
        yield made
    finally:
        made.close()


@pytest.fixture
def log_in(machine: SystemdMachine) -> Iterator[Callable[..., Account]]:
    """Yield the function that makes a user whose cluster serves and is watched."""
    accounts: list[Account] = []

    def make(user: str, systemctl: str = "systemctl") -> Account:
        account = Account(machine=machine, user=user, systemctl=systemctl)
        accounts.append(account)
        account.type("cluster.up", "--solo")
        account.type("cluster.enable")
        return account

    yield make
    engine.behave(HOST)
    for account in accounts:
        account.clear()
    assert machine.run("root", FAILED).output == ""


def test_systemctl_answers_as_the_stand_in_of_the_lab(machine: SystemdMachine) -> None:
    check_answers(machine.run, PLAIN_USER)


def test_the_service_relaunches_and_leaves_its_ranks(log_in: Callable[..., Account]) -> None:
    root = log_in("root")
    assert root.shell(f"systemd-analyze verify {SYSTEM_UNIT}") == ""
    assert root.ask("OOMPolicy") == "continue"
    before = root.count("relaunched")
    root.shell(KILL)
    assert root.sees("relaunched", before + 1)
    journal = root.shell(f"journalctl -u {SERVICE} -o cat")
    assert "rank lost: rank 0 on here is lost" in journal
    root.shell(f"systemctl restart {SERVICE}")
    root.shell(f"systemctl stop {SERVICE}")
    assert (root.ask("ActiveState"), root.ask("Result")) == ("inactive", "success")
    assert root.serves()


def test_a_shutdown_and_a_power_cut_are_distinguished(log_in: Callable[..., Account]) -> None:
    root = log_in("root")
    for end, words in (
        (root.machine.reboot, "it was shut down at "),
        (root.machine.lose_power, "it went down at "),
    ):
        root.type("cluster.down")
        root.type("cluster.up", "--solo")  # a person's start: the breaker does not wait
        before = root.count("relaunched")
        end()
        assert root.sees("relaunched", before + 1)
        assert any(words in event["text"] for event in root.list_events()[-4:])
        assert root.serves()


def test_a_stop_amid_a_relaunch_rolls_it_back(log_in: Callable[..., Account]) -> None:
    root = log_in("root")
    engine.misbehave(HOST, "serve", pace=60)
    before = root.count("relaunching")
    root.shell(KILL)
    assert root.sees("relaunching", before + 1)
    assert within(LATE, lambda: root.machine.run("root", RANKS).code == 0)
    root.shell(f"systemctl stop {SERVICE}")
    assert root.ask("Result") == "success"
    root.shell(RANKS, code=1)
    assert [event["kind"] for event in root.list_events()[-2:]] == [
        "relaunch-failed",
        "watch-ended",
    ]


def test_a_stop_after_a_look_that_found_a_loss_is_not_a_failure(
    log_in: Callable[..., Account],
) -> None:
    root = log_in("root")
    root.shell(KILL)
    found = "seen once; the next check decides"
    journal = f"journalctl -u {SERVICE} -b | grep -c '{found}'"
    seen = int(root.shell(journal, code=None))
    root.shell(f"systemctl restart {SERVICE}")
    assert within(LATE, lambda: int(root.shell(journal, code=None)) > seen)
    root.shell(f"systemctl stop {SERVICE}")
    assert (root.ask("ActiveState"), root.ask("Result")) == ("inactive", "success")


def test_a_user_without_sudo_is_watched_from_the_boot_on(machine: SystemdMachine) -> None:
    """The user lingers first: a shell of `su` has no manager and no XDG_RUNTIME_DIR."""
    root = Account(machine=machine, user="root")
    ann = Account(machine=machine, user=PLAIN_USER, systemctl="systemctl --user")
    root.shell(f"su - {PLAIN_USER} -c 'sparkfleet cluster.up --solo --inventory {INVENTORY}'")
    enabled = root.shell(f"su {PLAIN_USER} -c 'cd && sparkfleet cluster.enable "
                         f"--inventory {INVENTORY}'")  # fmt: skip
    assert f"run loginctl enable-linger {PLAIN_USER}" in enabled
    assert ann.ask("ActiveState") == "active"
    assert ann.shell(f"systemd-analyze --user verify ~/.config/systemd/user/{SERVICE}") == ""
    before = ann.count("relaunched")
    machine.reboot()
    assert ann.sees("relaunched", before + 1)
    assert ann.serves()
    assert "rank lost" in ann.shell(f"journalctl --user -u {SERVICE} -b -o cat")
    ann.clear()
    assert ann.shell("systemctl --user --failed --no-legend") == ""


def test_a_logout_leaves_the_semaphores_of_ranks(log_in: Callable[..., Account]) -> None:
    nvidia = log_in(SUDO_USER)
    assert nvidia.ask("User") == SUDO_USER
    before = nvidia.count("relaunched")
    nvidia.shell(KILL)
    assert nvidia.sees("relaunched", before + 1)  # now no process of the user is in a login
    nvidia.shell(f"touch {IPC}")
    time.sleep(12)  # logind waits for 10 s until it takes a user for logged out
    assert nvidia.machine.run("root", f"ls {IPC}").code == 0
