"""SSH as it is: host keys, refused keys, jump hosts, machines that are not there; on lab hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkfleet.commands import Command
from sparkfleet.errors import AuthenticationError, HostKeyError, UnreachableError
from sparkfleet.lab import fleet
from sparkfleet.lab.fleet import LabFleet
from sparkfleet.model import Host, Value
from sparkfleet.remote.ssh import connect_ssh
from tests.campaign.odd_hosts import ODD

pytestmark = pytest.mark.fleet

WHO = Command(argv=("hostname",))
FREE = "10.78.0.200"  # an address of the lab's own subnet that no host has


def _host(lab: LabFleet, address: str, **variables: Any) -> Host:
    known = {
        "ansible_host": address,
        "ansible_user": "nvidia",
        "ansible_ssh_private_key_file": str(lab.key),
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={lab.known_hosts}",
    }
    values = {name: Value(data=data) for name, data in {**known, **variables}.items()}
    return Host(name="it", vars=values)


def _empty(folder: Path) -> str:
    path = folder / "known_hosts"
    path.write_text("")
    return f"-o UserKnownHostsFile={path}"


def test_a_known_host_answers(lab: LabFleet) -> None:
    with connect_ssh(_host(lab, "10.78.0.1")) as link:
        assert link.run(WHO).text == "spark-01\n"


def test_a_host_that_allows_one_session_a_connection_gets_another_connection(
    lab: LabFleet,
) -> None:
    odd = ODD["MaxSessions 1"]
    fleet.run_on("spark-01", ["sh", "-c", odd.make])
    try:
        with connect_ssh(_host(lab, "10.78.0.1")) as link:
            channels = [link.open(Command(argv=("cat",))) for _ in range(3)]
            assert link.run(WHO).text == "spark-01\n"
            for number, channel in enumerate(channels):
                channel.feed([str(number).encode()])
                assert channel.receive() == str(number).encode()
                channel.close()
    finally:
        fleet.run_on("spark-01", ["sh", "-c", odd.undo])


def test_an_unknown_host_key_is_refused_and_nothing_runs(lab: LabFleet, tmp_path: Path) -> None:
    host = _host(lab, "10.78.0.1", ansible_ssh_common_args=_empty(tmp_path))
    with pytest.raises(HostKeyError, match="is not in known_hosts"):
        connect_ssh(host)


def test_another_key_than_the_known_one_is_refused(lab: LabFleet, tmp_path: Path) -> None:
    lines = lab.known_hosts.read_text().splitlines()
    key = lines[1].split(" ", 1)[1]
    path = tmp_path / "known_hosts"
    path.write_text(f"10.78.0.1 {key}\n")
    args = f"-o UserKnownHostsFile={path}"
    with pytest.raises(HostKeyError, match="another host key"):
        connect_ssh(_host(lab, "10.78.0.1", ansible_ssh_common_args=args))


def test_accept_new_trusts_a_host_on_first_contact_and_no_other_key_later(
    lab: LabFleet, tmp_path: Path
) -> None:
    args = _empty(tmp_path) + " -o StrictHostKeyChecking=accept-new -o HashKnownHosts=no"
    path = tmp_path / "known_hosts"
    path.write_text("# ours")
    with connect_ssh(_host(lab, "10.78.0.1", ansible_ssh_common_args=args)) as link:
        assert link.run(WHO).returncode == 0
    comment, line = path.read_text().splitlines()
    assert comment == "# ours"
    assert line.split()[2] in lab.known_hosts.read_text()
    path.write_text(line.replace("10.78.0.1", "10.78.0.2") + "\n")
    with pytest.raises(HostKeyError, match="another host key"):
        connect_ssh(_host(lab, "10.78.0.2", ansible_ssh_common_args=args))


def test_a_refused_key_is_reported_with_what_to_type(lab: LabFleet) -> None:
    with pytest.raises(AuthenticationError, match="accepted none of the keys") as caught:
        connect_ssh(_host(lab, "10.78.0.1", ansible_user="nobody"))
    assert "ssh-copy-id" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "why"), [(None, "No such file or directory"), ("no key\n", "not a valid OPENSSH")]
)
def test_a_file_without_a_key_is_named(
    lab: LabFleet, tmp_path: Path, text: str | None, why: str
) -> None:
    key = tmp_path / "key"
    if text is not None:
        key.write_text(text)
    with pytest.raises(AuthenticationError, match=f"the key {key} .* cannot be used: {why}"):
        connect_ssh(_host(lab, "10.78.0.1", ansible_ssh_private_key_file=str(key)))


def test_the_host_key_of_a_jump_host_is_reported_as_its_own(lab: LabFleet, tmp_path: Path) -> None:
    args = f"{_empty(tmp_path)} -J 10.78.0.1"
    with pytest.raises(HostKeyError, match=r"jump host nvidia@10\.78\.0\.1:22 is not"):
        connect_ssh(_host(lab, "10.78.0.2", ansible_ssh_common_args=args))


def test_an_address_without_a_host_is_unreachable(lab: LabFleet) -> None:
    with pytest.raises(UnreachableError, match=f"cannot connect to nvidia@{FREE}:22"):
        connect_ssh(_host(lab, FREE))


def test_f66_a_fabric_address_is_reached_through_a_jump_host(lab: LabFleet) -> None:
    inner = lab.hosts[1].rails[0].address
    key = lab.known_hosts.read_text().splitlines()[1].split(" ", 1)[1]
    known = lab.run_dir / "known_hosts_of_the_fabric"
    known.write_text(lab.known_hosts.read_text() + f"{inner} {key}\n")
    args = f"-o UserKnownHostsFile={known} -J 10.78.0.1"
    with connect_ssh(_host(lab, inner, ansible_ssh_common_args=args)) as link:
        assert link.run(WHO).text == "spark-02\n"
    known.unlink()


def _aliases(lab: LabFleet, folder: Path, text: str) -> Host:
    """Return a host that only ssh's configuration leads to."""
    config = folder / "config"
    known = f"Host *\n UserKnownHostsFile {lab.known_hosts}\n IdentityFile {lab.key}\n"
    config.write_text(text + known)
    args = f"-F {config}"
    bare = {"ansible_user": None, "ansible_ssh_private_key_file": None}
    return _host(lab, "alias", ansible_ssh_common_args=args, **bare)


def test_an_alias_of_ssh_leads_to_its_host(lab: LabFleet, tmp_path: Path) -> None:
    host = _aliases(lab, tmp_path, "Host alias\n HostName 10.78.0.2\n User nvidia\n")
    with connect_ssh(host) as link:
        assert link.run(WHO).text == "spark-02\n"


def test_an_alias_of_ssh_leads_through_its_jump_host(lab: LabFleet, tmp_path: Path) -> None:
    inner = lab.hosts[1].rails[0].address
    text = f"""
        Host alias
          HostName {inner}
          HostKeyAlias 10.78.0.2
          ProxyJump outer
        Host outer
          HostName 10.78.0.1
        Match host {inner},10.78.0.1
          User nvidia
    """
    with connect_ssh(_aliases(lab, tmp_path, text)) as link:
        assert link.run(WHO).text == "spark-02\n"


def test_the_key_of_another_name_is_not_the_key_of_a_host(lab: LabFleet, tmp_path: Path) -> None:
    text = "Host alias\n HostName 10.78.0.2\n User nvidia\n HostKeyAlias 10.78.0.1\n"
    with pytest.raises(HostKeyError, match="another host key"):
        connect_ssh(_aliases(lab, tmp_path, text))


def test_checks_that_ssh_would_leave_out_are_made_and_reported(
    lab: LabFleet, tmp_path: Path
) -> None:
    text = """
        Host alias
          HostName 10.78.0.2
          User nvidia
          StrictHostKeyChecking no
          UserKnownHostsFile /dev/null
    """
    with pytest.raises(HostKeyError) as caught:
        connect_ssh(_aliases(lab, tmp_path, text))
    assert "StrictHostKeyChecking=no is ignored" in str(caught.value.hint)


def test_a_jump_host_whose_key_is_unknown_is_refused_too(lab: LabFleet, tmp_path: Path) -> None:
    inner = lab.hosts[1].rails[0].address
    key = lab.known_hosts.read_text().splitlines()[1].split(" ", 1)[1]
    path = tmp_path / "known_hosts"
    path.write_text(f"{inner} {key}\n")
    args = f"-o UserKnownHostsFile={path} -J 10.78.0.1"
    with pytest.raises(HostKeyError):
        connect_ssh(_host(lab, inner, ansible_ssh_common_args=args))


def test_a_host_that_loses_power_is_noticed(lab: LabFleet) -> None:
    with connect_ssh(_host(lab, "10.78.0.2")) as link:
        fleet.set_fault("spark-02", "power-off")
        with pytest.raises(UnreachableError):
            link.run(WHO, timeout=30)
        fleet.set_fault("spark-02", "power-off", clear=True)
