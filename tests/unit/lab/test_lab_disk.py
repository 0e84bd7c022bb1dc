"""The disk of a lab host."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sparkfleet.lab.host.disk import (
    DGX_RELEASE,
    OS_RELEASE,
    build_common_layer,
    build_host_layer,
    find_free_id,
    format_hosts_file,
    merge_meminfo,
)
from sparkfleet.lab.plan import plan_fleet

NETPLAN_FILE = "etc/netplan/01-network-manager-all.yaml"

OUTPUTS = Path(__file__).parents[2] / "outputs"


@pytest.fixture
def accounts(tmp_path: Path) -> Path:
    (tmp_path / "passwd").write_text(
        "root:x:0:0::/root:/bin/sh\nme:x:1000:1000::/home/me:/bin/sh\n"
    )
    (tmp_path / "shadow").write_text("root:*:1::::::\nnvidia:!:1::::::\n")
    (tmp_path / "group").write_text("root:x:0:\nme:x:1000:\nstaff:x:1001:me\n")
    return tmp_path


def _recorded(name: str) -> str:
    lines = (OUTPUTS / name).read_text().splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("#"))


def test_the_os_is_the_recorded_one() -> None:
    assert _recorded("os-release.ubuntu-24.04.4.txt") == OS_RELEASE


def test_the_release_file_repeats_its_keys_like_the_recorded_one() -> None:
    recorded = _recorded("dgx-release.asus-four-ota-blocks-locale-date.txt")
    keys = [line.partition("=")[0] for line in DGX_RELEASE.splitlines() if line]
    assert set(keys) == {line.partition("=")[0] for line in recorded.splitlines() if line}
    assert keys.count("DGX_OTA_VERSION") == 3


def test_the_user_takes_the_first_id_that_neither_user_nor_group_has(accounts: Path) -> None:
    tree = build_common_layer(accounts)
    assert tree.files["etc/passwd"].endswith("\nnvidia:x:1002:1002::/home/nvidia:/bin/bash\n")
    assert tree.files["etc/group"].endswith("\nnvidia:x:1002:\n")


def test_an_account_of_that_name_is_replaced(accounts: Path) -> None:
    shadow = build_common_layer(accounts).files["etc/shadow"]
    assert shadow.count("nvidia:") == 1
    assert "nvidia:!" not in shadow


def test_free_ids_begin_at_1000() -> None:
    assert find_free_id("root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n") == 1000
    assert find_free_id("nvidia:x:1000:1000::/home/nvidia:/bin/bash\n") == 1000


def test_stand_ins_can_be_executed(accounts: Path) -> None:
    tree = build_common_layer(accounts)
    assert tree.modes["usr/bin/nvidia-smi"] == 0o755
    assert tree.files["usr/bin/nvidia-smi"].startswith("#!/bin/bash\n")


def test_only_bare_hosts_have_netplan_files(accounts: Path) -> None:
    bare = plan_fleet(2, bare=True)
    layer = build_host_layer(bare, bare.hosts[0])
    assert NETPLAN_FILE in layer.files
    assert layer.modes[NETPLAN_FILE] == 0o600
    configured = plan_fleet(2)
    assert NETPLAN_FILE not in build_host_layer(configured, configured.hosts[0]).files
    common = build_common_layer(accounts)
    assert common.modes["usr/sbin/netplan"] == 0o755
    assert "usr/lib/sparkfleet-lab/yaml/__init__.py" in common.files


def test_networkmanager_is_there_in_place_of_netplan(accounts: Path) -> None:
    fleet = plan_fleet(2, bare=True, networkmanager=True)
    layer = build_host_layer(fleet, fleet.hosts[0])
    assert NETPLAN_FILE not in layer.files
    assert "unmanaged-devices=" in layer.files["etc/NetworkManager/conf.d/sparkfleet-lab.conf"]
    assert layer.opaque == ("etc/NetworkManager",)  # no profile of this machine
    assert "usr/sbin/netplan" not in build_common_layer(accounts, netplan=False).files


def test_a_password_lets_the_user_log_in(accounts: Path) -> None:
    tree = build_common_layer(accounts, password="made-up")
    assert "PasswordAuthentication yes" in tree.files["etc/ssh/sshd_config"]
    assert re.search(r"^nvidia:\$6\$[0-9a-f]{16}\$.{86}:", tree.files["etc/shadow"], re.MULTILINE)
    assert "made-up" not in "".join(tree.files.values())


def test_a_host_finds_itself_on_loopback_and_its_peers_on_management() -> None:
    fleet = plan_fleet(2)
    assert format_hosts_file(fleet, fleet.hosts[0]).splitlines() == [
        "127.0.0.1 localhost",
        "127.0.1.1 spark-01",
        "::1 localhost",
        "10.78.0.2 spark-02",
    ]


def test_serials_and_machine_ids_differ() -> None:
    fleet = plan_fleet(2)
    first, second = (build_host_layer(fleet, host) for host in fleet.hosts)
    for path in ("etc/machine-id", "etc/dgx-release", "etc/hostname"):
        assert first.files[path] != second.files[path]
    assert len(first.files["etc/machine-id"]) == 33


def test_memory_is_the_machines_with_the_lines_of_a_spark() -> None:
    kernel = "MemTotal:       24684084 kB\nCmaTotal:          0 kB\nMemFree:         1 kB\n"
    assert merge_meminfo(kernel, "CmaTotal: 131072 kB\nCmaFree: 9 kB\n").splitlines() == [
        "MemTotal:       24684084 kB",
        "CmaTotal: 131072 kB",
        "MemFree:         1 kB",
        "CmaFree: 9 kB",
    ]
