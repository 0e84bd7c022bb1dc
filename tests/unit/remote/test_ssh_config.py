"""ssh's own configuration counts where the inventory says nothing, as ssh itself reads it."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.errors import UsageError
from sparkfleet.model import Host, Value
from sparkfleet.remote.ssh_config import complete_ssh_options
from sparkfleet.remote.ssh_options import SshOptions, parse_ssh_options

Resolve = Callable[..., SshOptions]
ME = getpass.getuser()


@pytest.fixture
def resolve(tmp_path: Path) -> Resolve:
    def resolve(text: str, args: str = "", **variables: Any) -> SshOptions:
        file = tmp_path / "config"
        file.write_text(text)
        known = {"ansible_ssh_common_args": f"-F {file} {args}", **variables}
        values = {name: Value(data=data) for name, data in known.items()}
        return complete_ssh_options(parse_ssh_options(Host(name="spark1", vars=values)))

    return resolve


def _way(options: SshOptions) -> list[str]:
    return [f"{hop.user}@{hop.address}:{hop.port}" for hop in options.jumps or ()]


def test_an_alias_leads_to_its_host(resolve: Resolve, tmp_path: Path) -> None:
    key, usual = tmp_path / "alice", tmp_path / "id_ed25519"
    key.touch()
    usual.touch()
    options = resolve(f"""
        Host spark1
          HostName 10.0.0.5
          User alice
          Port 2222
          IdentityFile {tmp_path}/%r
          IdentityFile {usual}
          IdentityFile {tmp_path}/missing
          IdentitiesOnly yes
          UserKnownHostsFile "{tmp_path}/known hosts" ~/k_%h
          StrictHostKeyChecking accept-new
          HostKeyAlias spark
    """)
    assert (options.address, options.user, options.port) == ("10.0.0.5", "alice", 2222)
    assert options.identity_files == (str(key), str(usual))
    own, other, *_ = options.known_hosts
    assert own == f"{tmp_path}/known hosts"
    assert other.endswith("/k_10.0.0.5")
    assert (options.key_checking, options.key_alias) == ("accept-new", "spark")


def test_without_a_word_it_is_this_login_port_22_and_a_checked_key(resolve: Resolve) -> None:
    options = resolve("")
    assert (options.address, options.user, options.port) == ("spark1", ME, 22)
    assert (options.jumps, options.identity_files, options.key_alias) == ((), (), None)
    assert options.key_checking == "yes"
    assert options.known_hosts[0].endswith("/.ssh/known_hosts")


def test_the_inventory_wins_over_its_arguments_and_these_over_the_configuration(
    resolve: Resolve,
) -> None:
    text = """
        Host spark1
          HostName 10.0.0.5
          User config
          Port 1
          UserKnownHostsFile /config
          StrictHostKeyChecking accept-new
          HostKeyAlias config
          ProxyJump config
    """
    args = "-l args -p 2 -o UserKnownHostsFile=/args -o StrictHostKeyChecking=yes -J args"
    options = resolve(text, args + " -o HostKeyAlias=args", ansible_port=3)
    assert (options.user, options.port, options.known_hosts[0]) == ("args", 3, "/args")
    assert (options.key_checking, options.key_alias) == ("yes", "args")
    assert _way(options) == ["args@args:22"]


def test_the_first_value_in_the_configuration_wins(resolve: Resolve) -> None:
    options = resolve("Host spark*\n User first\nHost spark1\n User second\n Port 2222\n")
    assert (options.user, options.port) == ("first", 2222)


def test_included_files_and_match_blocks_are_read(resolve: Resolve, tmp_path: Path) -> None:
    (tmp_path / "sparks.conf").write_text("Host spark1\n HostName 10.0.0.5\n")
    options = resolve(f"""
        Include {tmp_path}/*.conf
        Match host 10.0.0.5 user nvidia
          Port 2200
        Match host 10.0.0.6
          Port 2300
    """, ansible_user="nvidia")  # fmt: skip
    assert (options.address, options.port) == ("10.0.0.5", 2200)


def test_a_jump_host_of_the_configuration_has_its_own_lines_there(resolve: Resolve) -> None:
    text = """
        Host spark1
          ProxyJump outer,%r@inner:2200
        Host outer
          HostName 192.0.2.1
          User gate
          ProxyJump door
    """
    options = resolve(text, ansible_user="nvidia")
    assert _way(options) == [f"{ME}@door:22", "gate@192.0.2.1:22", "nvidia@inner:2200"]


def test_a_jump_host_of_the_inventory_has_the_inventorys_user_unless_ssh_knows_better(
    resolve: Resolve,
) -> None:
    text = "Host outer\n User gate\n"
    options = resolve(text, "-J outer,inner,bob@last", ansible_user="nvidia")
    assert _way(options) == ["gate@outer:22", "nvidia@inner:22", "bob@last:22"]


def test_proxyjump_none_in_the_inventory_goes_straight(resolve: Resolve) -> None:
    assert resolve("Host *\n ProxyJump gate\n", "-o ProxyJump=none").jumps == ()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ProxyCommand nc %h %p", "ProxyCommand nc %h %p"),
        ("RevokedHostKeys /revoked", "RevokedHostKeys /revoked"),
        ("BindAddress 10.0.0.1", "BindAddress 10.0.0.1"),
        ("ProxyJump [fe80::1]:22", "ProxyJump"),
    ],
)
def test_a_way_or_a_check_that_we_do_not_have_is_refused(
    resolve: Resolve, line: str, expected: str
) -> None:
    with pytest.raises(UsageError, match="unsupported SSH option") as caught:
        resolve(f"Host spark1\n {line}\n")
    assert expected in caught.value.message


def test_a_proxy_command_is_overridden_in_the_inventory(resolve: Resolve) -> None:
    text = "Host spark1\n ProxyCommand nc %h %p\n"
    assert resolve(text, "-o ProxyCommand=none").jumps == ()
    assert _way(resolve(text, "-J bob@gate")) == ["bob@gate:22"]


def test_a_configuration_that_ssh_refuses_is_reported_in_its_words(resolve: Resolve) -> None:
    with pytest.raises(
        UsageError, match=r"for spark1: .*line 1: Bad configuration option: hostnaem"
    ):
        resolve("HostNaem x\n")


def test_a_configuration_with_a_mark_of_the_byte_order_is_named(resolve: Resolve) -> None:
    with pytest.raises(UsageError, match="ssh refuses its configuration") as caught:
        resolve("\ufeffHost spark1\n")
    assert caught.value.hint == "save the file without a byte-order mark"


def test_a_configuration_that_never_ends_is_refused_at_once(tmp_path: Path) -> None:
    """`ssh -G` waited for its end, and was given up after 15 s."""
    os.mkfifo(tmp_path / "config")
    words = Value(data=f"-F {tmp_path}/config")
    host = Host(name="spark1", vars={"ansible_ssh_common_args": words})
    with pytest.raises(UsageError, match="config cannot be read: it is a device"):
        complete_ssh_options(parse_ssh_options(host))


def test_a_keyword_of_another_system_is_passed_over_as_the_hint_says(resolve: Resolve) -> None:
    """UseKeychain of macOS, in every second configuration that is shared with one."""
    text = "UseKeychain yes\nHost spark1\n Usekeychain no\n"
    with pytest.raises(UsageError, match="Bad configuration option: usekeychain") as caught:
        resolve(text)
    assert caught.value.hint == (
        "if another system has it, begin the file with: IgnoreUnknown usekeychain"
    )
    assert resolve(f"IgnoreUnknown usekeychain\n{text}").address == "spark1"


@pytest.mark.parametrize(
    ("command", "host"),
    [
        ("ssh gate -W %h:%p", "gate"),
        ("ssh -q -W %h:%p bob@gate", "bob@gate"),
        ("ssh gate nc -w3 %h %p", "gate"),
        ("exec ssh gate exec netcat %h %p", "gate"),
    ],
)
def test_a_proxy_command_through_ssh_is_hinted_as_a_jump(
    resolve: Resolve, command: str, host: str
) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(f"Host spark1\n ProxyCommand {command}\n")
    assert caught.value.hint == f"write it as ProxyJump {host}"


def test_a_proxy_command_that_does_more_is_not_hinted_as_a_jump(resolve: Resolve) -> None:
    with pytest.raises(UsageError) as caught:
        resolve("Host spark1\n ProxyCommand ssh -W localhost:4223 gate\n")
    assert "write it as" not in str(caught.value.hint)


def test_jump_hosts_in_a_circle_are_refused(resolve: Resolve) -> None:
    with pytest.raises(UsageError, match="more than 8 jump hosts"):
        resolve("Host spark1 b\n ProxyJump a\nHost a\n ProxyJump b\n")


def test_without_ssh_the_inventory_alone_counts(
    resolve: Resolve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    options = complete_ssh_options(SshOptions(address="10.0.0.5"))
    assert (options.address, options.user, options.port) == ("10.0.0.5", ME, 22)
    assert options.known_hosts == ("~/.ssh/known_hosts",)
    with pytest.raises(UsageError, match="OpenSSH client is not installed"):
        resolve("")
