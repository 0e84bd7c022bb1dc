"""Messages for refused SSH connections; their commands reach the same machine."""

from __future__ import annotations

from dataclasses import replace

import paramiko
import pytest

from sparkfleet.errors import UnreachableError
from sparkfleet.model import Host, Value
from sparkfleet.remote import errors, ssh
from sparkfleet.remote.errors import Target
from sparkfleet.remote.ssh import connect_ssh
from sparkfleet.remote.ssh_options import SshOptions

HOP = SshOptions(address="10.0.0.9", user="me", port=22)
USUAL = SshOptions(
    address="10.0.0.1", user="nvidia", port=22, known_hosts=("~/.ssh/known_hosts", "/etc/more")
)
OTHER = SshOptions(
    address="10.0.0.2", user="nvidia", port=2222, known_hosts=("/keys/my lab",), jumps=(HOP,)
)


def test_what_is_typed_next_takes_the_same_way() -> None:
    assert Target(host="a", options=USUAL).command("ssh", "-v") == "ssh -v nvidia@10.0.0.1"
    assert Target(host="b", options=OTHER).command("ssh") == (
        "ssh -o ProxyJump=me@10.0.0.9:22 -p 2222 "
        "-o 'UserKnownHostsFile=/keys/my lab' nvidia@10.0.0.2"
    )


def test_a_key_is_forgotten_where_it_is_known() -> None:
    usual = errors.build_changed_key_error(Target(host="a", options=USUAL), unchecked=False)
    assert str(usual.hint).endswith("then: ssh-keygen -R 10.0.0.1")
    other = errors.build_changed_key_error(Target(host="b", options=OTHER), unchecked=False)
    assert "the one in known_hosts (/keys/my lab)" in other.message
    assert str(other.hint).endswith("ssh-keygen -R '[10.0.0.2]:2222' -f '/keys/my lab'")


def test_a_first_contact_is_written_into_the_file_that_is_read() -> None:
    error = errors.build_unknown_key_error(Target(host="b", options=OTHER), unchecked=False)
    assert "UserKnownHostsFile=/keys/my lab" in str(error.hint)


def test_a_password_for_ssh_is_said_to_be_unused() -> None:
    without = errors.build_login_error(Target(host="a", options=USUAL))
    assert str(without.hint).startswith(
        "install a key: sparkfleet hosts.authorize, or ssh-copy-id nvidia@10.0.0.1;"
    )
    given = errors.build_login_error(Target(host="a", options=USUAL, password=True))
    assert str(given.hint).startswith(
        "SSH password authentication is not supported; install a key: "
    )


def test_without_any_key_the_hint_says_how_to_make_and_copy_one() -> None:
    reason = paramiko.SSHException("No authentication methods available")
    error = ssh._translate_error(Target(host="b", options=OTHER), reason)
    assert "no SSH key to log in to nvidia@10.0.0.2:2222" in error.message
    make, copy = str(error.hint).splitlines()
    assert make.endswith("sparkfleet hosts.authorize")
    assert "ssh-keygen -t ed25519" in copy
    assert "ssh-copy-id -o ProxyJump=me@10.0.0.9:22 -p 2222" in copy


def test_a_jump_host_is_named_where_it_is_what_fails() -> None:
    words = Value(data="-F none -J nobody@127.0.0.1:1")
    host = Host(name="far", vars={"ansible_ssh_common_args": words})
    with pytest.raises(UnreachableError, match=r"jump host nobody@127\.0\.0\.1:1 ") as caught:
        connect_ssh(host)
    assert str(caught.value.hint).endswith("ssh -v -F none -p 1 nobody@127.0.0.1")


def test_a_command_uses_the_same_key_name_and_configuration() -> None:
    own = replace(
        USUAL,
        identity_files=("/keys/spark", "/keys/old"),
        key_alias="spark",
        key_checking="accept-new",
        config_file="/etc/other",
        words=("IdentitiesOnly=yes",),
    )
    target = Target(host="a", options=own)
    assert target.command("ssh") == (
        "ssh -F /etc/other -i /keys/spark -i /keys/old -o HostKeyAlias=spark "
        "-o StrictHostKeyChecking=accept-new -o IdentitiesOnly=yes nvidia@10.0.0.1"
    )
    assert target.command("ssh-copy-id").count(" -i ") == 1


def test_a_jump_host_with_a_key_of_its_own_is_reached_with_it() -> None:
    hop = replace(HOP, port=2200, identity_files=("/keys/gate",), known_hosts=("/keys/hosts",))
    target = Target(host="b", options=replace(USUAL, jumps=(hop,)))
    assert target.command("ssh") == (
        "ssh -o 'ProxyCommand=ssh -W '\"'\"'[%h]:%p'\"'\"' -p 2200 -i /keys/gate "
        "-o UserKnownHostsFile=/keys/hosts me@10.0.0.9' nvidia@10.0.0.1"
    )


def test_a_hint_of_a_host_takes_what_the_inventory_says() -> None:
    words = Value(data="-F none -i /keys/spark")
    host = Host(
        name="far",
        vars={
            "ansible_ssh_common_args": words,
            "ansible_user": Value(data="nvidia"),
            "ansible_port": Value(data=2222),
        },
    )
    command = errors.build_ssh_command(host, "python3", "-V")
    assert command == "ssh -F none -p 2222 -i /keys/spark nvidia@far python3 -V"
