"""Inventory variables become SSH options; what is not supported is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from sparkfleet.errors import InventoryError
from sparkfleet.model import Host, Value
from sparkfleet.remote.ssh_options import SshOptions, parse_ssh_options


def _host(**variables: Any) -> Host:
    return Host(name="spark-01", vars={name: Value(data=data) for name, data in variables.items()})


def test_a_bare_host_leaves_user_and_port_to_the_ssh_configuration() -> None:
    assert parse_ssh_options(_host()) == SshOptions(address="spark-01", user=None, port=None)


def test_the_connection_variables_of_ansible_are_read() -> None:
    options = parse_ssh_options(
        _host(
            ansible_host="192.168.1.11",
            ansible_user="alice",
            ansible_port=2222,
            ansible_ssh_private_key_file="~/.ssh/spark",
        )
    )
    assert options == SshOptions(
        address="192.168.1.11", user="alice", port=2222, identity_files=("~/.ssh/spark",)
    )


@pytest.mark.parametrize(
    "text",
    [
        "-o UserKnownHostsFile=/k -o ProxyJump=bob@jump:2200 -o StrictHostKeyChecking=accept-new",
        "-oUserKnownHostsFile=/k -J bob@jump:2200 -oStrictHostKeyChecking=accept-new",
    ],
)
def test_common_args_name_known_hosts_and_jump_hosts(text: str) -> None:
    options = parse_ssh_options(_host(ansible_user="alice", ansible_ssh_common_args=text))
    (jump,) = options.jumps or ()
    assert (jump.address, jump.user, jump.port) == ("jump", "bob", 2200)
    assert jump.known_hosts == options.known_hosts == ("/k",)
    assert jump.key_checking == options.key_checking == "accept-new"


def test_a_chain_of_jump_hosts_keeps_its_order() -> None:
    options = parse_ssh_options(_host(ansible_user="a", ansible_ssh_common_args="-J one,two"))
    assert [jump.address for jump in options.jumps or ()] == ["one", "two"]
    assert {jump.fallback_user for jump in options.jumps or ()} == {"a"}


@pytest.mark.parametrize("text", ["-o ProxyJump=none", "-J none", "-o ProxyCommand=none -J gate"])
def test_proxyjump_none_means_no_jump_host(text: str) -> None:
    assert parse_ssh_options(_host(ansible_ssh_common_args=text)).jumps == ()


def test_an_unnamed_jump_host_is_left_to_the_configuration_of_ssh() -> None:
    assert parse_ssh_options(_host(ansible_ssh_common_args="-o BatchMode=yes")).jumps is None


def test_of_two_values_the_variables_then_the_first_counts() -> None:
    options = parse_ssh_options(
        _host(
            ansible_user="alice",
            ansible_port=2222,
            ansible_ssh_private_key_file="/a",
            ansible_ssh_common_args="-l bob -p 23 -i /b -o UserKnownHostsFile=/k -J one",
            ansible_ssh_extra_args="-o UserKnownHostsFile=/l -J two -o HostKeyAlias=x -F /f",
        )
    )
    assert (options.user, options.port, options.identity_files) == ("alice", 2222, ("/a", "/b"))
    assert options.known_hosts == ("/k",)
    assert [jump.address for jump in options.jumps or ()] == ["one"]
    assert (options.key_alias, options.config_file) == ("x", "/f")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-o StrictHostKeyChecking=no", "host keys are always checked"),
        ("-o ProxyCommand=nc", "use ProxyJump"),
        ('-o ProxyCommand="ssh -W %h:%p -q me@jump"', "write it as -o ProxyJump=me@jump"),
        ('-o ProxyCommand="ssh jump -W %h:%p"', "write it as -o ProxyJump=jump"),
        ("-o StrictHostKeyChecking=no", "SSH option 'StrictHostKeyChecking=no'"),
        ("-p twenty", "known: UserKnownHostsFile"),
        ("-J one,-oProxyCommand=x", "known: UserKnownHostsFile"),
        ("-J a@b:c", "known: UserKnownHostsFile"),
        ("-J a@b:99999", "known: UserKnownHostsFile"),
        ("-L 80:a:80", "known: UserKnownHostsFile"),
    ],
)
def test_an_option_outside_the_supported_part_is_refused(text: str, expected: str) -> None:
    with pytest.raises(InventoryError, match="is not supported") as caught:
        parse_ssh_options(_host(ansible_ssh_common_args=text))
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "-C -q -o ControlMaster=auto -o ControlPersist=60s -o ControlPath=~/.ssh/%h",
        "-o ServerAliveInterval=30 -o ServerAliveCountMax=3 -o ForwardAgent=yes",
        "-o LogLevel=ERROR -o PreferredAuthentications=publickey -o Compression=yes",
    ],
)
def test_options_that_change_nothing_here_are_accepted(text: str) -> None:
    plain = parse_ssh_options(_host())
    assert parse_ssh_options(_host(ansible_ssh_common_args=text)) == plain
