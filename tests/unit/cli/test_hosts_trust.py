"""`hosts.trust` and `hosts.authorize` with SSH servers on this machine."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import paramiko
import pytest

from sparkfleet.cli import prompt
from sparkfleet.cli.hosts.authorize import authorize_key, build_copy_command, choose_public_key
from sparkfleet.cli.hosts.options import AuthorizeOptions, TrustOptions
from sparkfleet.cli.hosts.trust import format_console_command, show_host_keys
from sparkfleet.cli.options import parse_options
from sparkfleet.errors import UsageError
from sparkfleet.remote.errors import Target
from sparkfleet.remote.host_keys import OfferedKey
from sparkfleet.remote.ssh_options import SshOptions
from tests.doubles.ssh_server import SshServer

Call = Callable[..., int]
COPY = """#!{python}
import pathlib, sys
pathlib.Path({log!r}).write_text("\\n".join(sys.argv[1:]))
sys.exit({code})
"""


@pytest.fixture
def server() -> Iterator[SshServer]:
    with SshServer() as running:
        yield running


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty home without an agent, and answer no question."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(prompt, "confirm", lambda _: False)
    return tmp_path


def _inventory(folder: Path, server: SshServer, gateway: SshServer | None = None) -> str:
    jump = f" -J me@127.0.0.1:{gateway.port}" if gateway else ""
    args = f"-F none -o UserKnownHostsFile={folder}/known_hosts{jump}"
    variables = {
        "ansible_host": "127.0.0.1",
        "ansible_port": server.port,
        "ansible_user": "nvidia",
        "ansible_ssh_private_key_file": str(folder / "key"),
        "ansible_ssh_common_args": args,
    }
    (folder / "i.yml").write_text(json.dumps({"sparks": {"hosts": {"spark-01": variables}}}))
    return "i.yml"


def _trust(folder: Path, server: SshServer, gateway: SshServer | None = None, **typed: Any) -> int:
    given = {"inventory": [_inventory(folder, server, gateway)], **typed}
    return show_host_keys(parse_options(TrustOptions, "hosts.trust", given, whole_cluster=True))


def _authorize(folder: Path, server: SshServer, **typed: Any) -> int:
    given = {"inventory": [_inventory(folder, server)], **typed}
    return authorize_key(
        parse_options(AuthorizeOptions, "hosts.authorize", given, whole_cluster=True)
    )


def _fingerprint(server: SshServer) -> str:
    digest = hashlib.sha256(server.host_key.asbytes()).digest()
    return "SHA256:" + b64encode(digest).decode().rstrip("=")


def _make_key(folder: Path) -> str:
    """Make a key pair and return the public key as base64."""
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key")], check=True
    )
    return (folder / "key.pub").read_text().split()[1]


def test_nothing_is_written_without_a_yes(
    home: Path, server: SshServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _trust(home, server) == 2
    assert not (home / "known_hosts").exists()
    shown = capsys.readouterr().out
    assert f"ecdsa-sha2-nistp256 {_fingerprint(server)} (new)" in shown
    assert "on its own console: ssh-keygen -lf /etc/ssh/ssh_host_ecdsa_key.pub" in shown
    assert f"--fingerprint {_fingerprint(server)}" in shown


def test_a_yes_adds_the_key_and_a_second_run_asks_nothing(
    home: Path, server: SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt, "confirm", lambda _: True)
    assert _trust(home, server) == 0
    assert (home / "known_hosts").read_text() == server.line
    monkeypatch.setattr(prompt, "confirm", lambda _: pytest.fail("it asked"))
    assert _trust(home, server) == 0
    assert (home / "known_hosts").read_text() == server.line


def test_a_fingerprint_adds_its_key_without_a_question(home: Path, server: SshServer) -> None:
    assert _trust(home, server, fingerprint=[_fingerprint(server)]) == 0
    assert (home / "known_hosts").read_text() == server.line


def test_a_key_without_its_fingerprint_is_not_added(
    home: Path,
    server: SshServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(prompt, "confirm", lambda _: True)
    other = "SHA256:" + "a" * 43
    assert _trust(home, server, fingerprint=[other]) == 2
    assert not (home / "known_hosts").exists()
    unseen = f"--fingerprint {other}: no machine has this host key"
    assert unseen in capsys.readouterr().out


def test_a_fingerprint_of_no_machine_is_refused_where_keys_are_known(
    home: Path, server: SshServer, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "known_hosts").write_text(server.line)
    other = "SHA256:" + "a" * 43
    assert _trust(home, server, fingerprint=[other, _fingerprint(server)], output="json") == 2
    assert json.loads(capsys.readouterr().out)["unseen_fingerprints"] == [other]
    assert (home / "known_hosts").read_text() == server.line


def test_a_changed_key_is_never_added(
    home: Path,
    server: SshServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(prompt, "confirm", lambda _: True)
    other = paramiko.ECDSAKey.generate()
    line = f"[127.0.0.1]:{server.port} {other.get_name()} {other.get_base64()}\n"
    (home / "known_hosts").write_text(line)
    assert _trust(home, server, fingerprint=[_fingerprint(server)]) == 4
    assert (home / "known_hosts").read_text() == line
    assert f"ssh-keygen -R '[127.0.0.1]:{server.port}' -f" in capsys.readouterr().out


def test_a_key_of_another_type_than_the_known_one_is_a_changed_key(
    home: Path, server: SshServer, capsys: pytest.CaptureFixture[str]
) -> None:
    rsa = paramiko.RSAKey.generate(1024)
    line = f"[127.0.0.1]:{server.port} ssh-rsa {rsa.get_base64()}\n"
    (home / "known_hosts").write_text(line)
    assert _trust(home, server, fingerprint=[_fingerprint(server)]) == 4
    assert "another host key" in capsys.readouterr().out


def test_a_gateway_is_trusted_before_the_host_behind_it(home: Path, server: SshServer) -> None:
    with SshServer(authorized={_make_key(home)}) as gateway:
        fingerprints = [_fingerprint(gateway), _fingerprint(server)]
        assert _trust(home, server, gateway, fingerprint=fingerprints) == 0
        assert (home / "known_hosts").read_text() == gateway.line + server.line
        assert gateway.logins == ["me"]
    assert server.logins == []


def test_a_host_behind_an_unknown_gateway_is_not_asked(
    home: Path, server: SshServer, capsys: pytest.CaptureFixture[str]
) -> None:
    _make_key(home)
    with SshServer() as gateway:
        assert _trust(home, server, gateway, fingerprint=[_fingerprint(server)]) == 6
    assert not (home / "known_hosts").exists()
    assert "jump host me@127.0.0.1" in capsys.readouterr().out


def test_the_document_has_every_fingerprint(
    home: Path, server: SshServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _trust(home, server, output="json") == 2
    [machine] = json.loads(capsys.readouterr().out)["machines"]
    assert machine["fingerprint"] == _fingerprint(server)
    assert machine["state"] == "new"


def test_a_fingerprint_is_the_one_that_openssh_prints(home: Path) -> None:
    _make_key(home)
    kind, key, *_ = (home / "key.pub").read_text().split()
    offered = OfferedKey(kind=kind, key=paramiko.PKey.from_path(str(home / "key")).asbytes())
    done = subprocess.run(
        ["ssh-keygen", "-lf", str(home / "key.pub")], capture_output=True, text=True, check=True
    )
    assert offered.fingerprint == done.stdout.split()[1]
    assert key


@pytest.mark.parametrize("text", ["SHA256:short", "MD5:aa:bb", "a" * 50])
def test_a_fingerprint_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--fingerprint"):
        parse_options(TrustOptions, "hosts.trust", {"fingerprint": [text]})


def test_the_console_command_names_the_file_of_sshd() -> None:
    assert format_console_command("ssh-ed25519").endswith("/ssh_host_ed25519_key.pub")
    assert format_console_command("ssh-rsa").endswith("/ssh_host_rsa_key.pub")


def test_a_machine_that_takes_a_key_is_left_alone(
    home: Path, server: SshServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.authorized.add(_make_key(home))
    (home / "known_hosts").write_text(server.line)
    assert _authorize(home, server) == 0
    assert "already accepts one of your keys" in capsys.readouterr().out


def test_a_machine_whose_key_is_unknown_is_left_to_hosts_trust(
    home: Path, server: SshServer, capsys: pytest.CaptureFixture[str]
) -> None:
    _make_key(home)
    assert _authorize(home, server) == 4
    assert "sparkfleet hosts.trust" in capsys.readouterr().out


def _install_copier(folder: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> Path:
    """Put a stand-in for ssh-copy-id first in PATH; return the file of its arguments."""
    log = folder / "copied"
    program = folder / "bin/ssh-copy-id"
    program.parent.mkdir()
    program.write_text(COPY.format(python=sys.executable, log=str(log), code=code))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setattr(prompt, "require_terminal", lambda *_: None)
    return log


def test_a_key_is_copied_by_openssh_with_host_keys_checked(
    home: Path,
    server: SshServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _make_key(home)
    (home / "known_hosts").write_text(server.line)
    log = _install_copier(home, monkeypatch, 1)
    assert _authorize(home, server) == 4
    assert log.read_text().splitlines() == [
        *("-i", f"{home}/key.pub", "-F", "none", "-p", str(server.port)),
        *("-o", "StrictHostKeyChecking=yes", "-o", f"UserKnownHostsFile={home}/known_hosts"),
        "nvidia@127.0.0.1",
    ]
    shown = capsys.readouterr().out
    assert f"nvidia@127.0.0.1 does not accept {home}/key.pub yet" in shown
    assert "to try the password again: sparkfleet hosts.authorize" in shown


def test_without_ssh_copy_id_the_line_to_add_is_named(
    home: Path,
    server: SshServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _make_key(home)
    (home / "known_hosts").write_text(server.line)
    monkeypatch.setattr(prompt, "require_terminal", lambda *_: None)
    monkeypatch.setenv("PATH", str(home / "nothing"))
    assert _authorize(home, server) == 4
    shown = capsys.readouterr().out
    assert "ssh-copy-id not found on this machine" in shown
    assert f"add the line in {home}/key.pub to ~/.ssh/authorized_keys" in shown


def test_a_copied_key_is_tried(
    home: Path, server: SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    _make_key(home)
    (home / "known_hosts").write_text(server.line)
    _install_copier(home, monkeypatch, 0)
    assert _authorize(home, server) == 4  # the stand-in copies nothing, so no login works


def test_without_a_terminal_nothing_is_copied(
    home: Path, server: SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    _make_key(home)
    (home / "known_hosts").write_text(server.line)
    log = _install_copier(home, monkeypatch, 0)

    def refuse(who: str, hint: str) -> None:
        raise UsageError(f"{who} requires a terminal", hint=hint)

    monkeypatch.setattr(prompt, "require_terminal", refuse)
    with pytest.raises(UsageError, match="requires a terminal"):
        _authorize(home, server)
    assert not log.exists()


def _target(**options: Any) -> Target:
    return Target(host="a", options=SshOptions(address="10.0.0.1", user="me", port=22, **options))


def test_the_first_key_of_the_home_is_copied_and_one_is_made_where_there_is_none(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        made.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    assert choose_public_key(_target(), None) == home / ".ssh/id_ed25519.pub"
    assert made == [["ssh-keygen", "-t", "ed25519", "-f", f"{home}/.ssh/id_ed25519"]]
    (home / ".ssh/id_rsa.pub").write_text("ssh-rsa AAAA me\n")
    assert choose_public_key(_target(), None) == home / ".ssh/id_rsa.pub"


def test_a_named_key_needs_its_public_part(home: Path) -> None:
    with pytest.raises(UsageError, match=r"own\.pub not found"):
        choose_public_key(_target(), home / "own")


def test_the_way_through_a_gateway_is_that_of_the_connection() -> None:
    hop = SshOptions(address="10.0.0.9", user="me", port=22)
    words = build_copy_command(
        _target(jumps=(hop,), known_hosts=("~/.ssh/known_hosts",)), Path("k.pub")
    )
    assert "ProxyJump=me@10.0.0.9:22" in words
