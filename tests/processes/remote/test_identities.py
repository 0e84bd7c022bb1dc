"""Keys that only the agent can use, and files that are not keys."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paramiko
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from sparkfleet.errors import AuthenticationError, HostKeyError, UsageError
from sparkfleet.model import Host, Value
from sparkfleet.remote import ssh
from sparkfleet.remote.host_keys import (
    HostKeyPolicy,
    HostKeyRefusedError,
    list_disabled_algorithms,
)
from sparkfleet.remote.identities import (
    SecurityKeyError,
    choose_identity,
    find_usual_identity,
    open_agent,
)
from sparkfleet.remote.known_hosts import KnownKeys
from sparkfleet.remote.ssh_options import SshOptions
from tests.doubles.ssh_server import SshServer


class _Agent:
    """An agent with some keys."""

    held: tuple[paramiko.PKey, ...] = ()

    def get_keys(self) -> tuple[paramiko.PKey, ...]:
        return self.held

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> type[_Agent]:
    monkeypatch.setattr(_Agent, "held", ())
    monkeypatch.setattr(paramiko, "Agent", _Agent)
    return _Agent


def _field(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def write_security_key(path: Path) -> bytes:
    """Write the handle of a made ed25519-sk key, as `ssh-keygen -t ed25519-sk` leaves it."""
    blob = _field(b"sk-ssh-ed25519@openssh.com") + _field(b"p" * 32) + _field(b"ssh:")
    private = b"abcd" * 2 + blob + b"\x01" + _field(b"h" * 64) + _field(b"") + _field(b"made")
    private += bytes(range(1, -len(private) % 8 + 1))
    key = b"openssh-key-v1\0" + _field(b"none") * 2 + _field(b"") + struct.pack(">I", 1)
    text = base64.encodebytes(key + _field(blob) + _field(private)).decode()
    kind = "OPENSSH " + "PRIVATE KEY"
    path.write_text(f"-----BEGIN {kind}-----\n{text}-----END {kind}-----\n")
    return blob


def _write_key(path: Path, *, locked: bool) -> paramiko.PKey:
    key = Ed25519PrivateKey.generate()
    lock = BestAvailableEncryption(b"secret") if locked else NoEncryption()
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, lock))
    return paramiko.Ed25519Key.from_private_key_file(str(path), "secret" if locked else None)


class _Held:
    def __init__(self, blob: bytes) -> None:
        self.blob = blob

    def asbytes(self) -> bytes:
        return self.blob


def test_a_security_key_signs_through_the_agent(tmp_path: Path, agent: Any) -> None:
    blob = write_security_key(tmp_path / "key")
    held = _Held(blob)
    agent.held = (held,)
    chosen, rest = choose_identity([str(tmp_path / "key")], agent=True)
    assert id(chosen) == id(held)
    assert rest == ()


@pytest.mark.parametrize("allowed", [True, False])
def test_a_security_key_that_the_agent_lacks_is_named(
    tmp_path: Path, agent: Any, *, allowed: bool
) -> None:
    blob = write_security_key(tmp_path / "key")
    agent.held = () if allowed else (_Held(blob),)
    with pytest.raises(SecurityKeyError, match="lives on a security key"):
        choose_identity([str(tmp_path / "key")], agent=allowed)


def test_a_key_with_a_passphrase_signs_through_the_agent_that_has_it(
    tmp_path: Path, agent: Any
) -> None:
    key = _write_key(tmp_path / "key", locked=True)
    other = _write_key(tmp_path / "other", locked=False)
    files = [str(tmp_path / "key"), str(tmp_path / "other")]
    assert choose_identity(files, agent=True) == (None, tuple(files))
    agent.held = (other, key)
    chosen, rest = choose_identity(files, agent=True)
    assert chosen is key
    assert rest == (files[1],)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a key",
        b"ssh-ed25519",
        b"ssh-ed25519 ====",
        b"-----BEGIN OPENSSH PRIVATE KEY-----\n",
        b"-----BEGIN OPENSSH PRIVATE KEY-----\n*\n-----END",
        b"-----BEGIN X-----\n" + base64.b64encode(b"openssh-key-v1\0\0\0") + b"\n-----END X-----",
        b"-----BEGIN X-----\n" + base64.b64encode(b"openssh-key-v1\0" + b"\xff" * 40) + b"-----",
    ],
)
def test_a_file_that_is_not_a_key_is_left_to_paramiko(
    tmp_path: Path, agent: Any, content: bytes
) -> None:
    del agent
    path = tmp_path / "key"
    path.write_bytes(content)
    assert choose_identity([str(path), "/none"], agent=True) == (None, (str(path), "/none"))


def test_t2_15_the_error_says_where_the_key_is_and_how_to_use_it(
    tmp_path: Path, agent: Any
) -> None:
    del agent
    write_security_key(tmp_path / "key")
    host = Host(
        name="spark-01",
        vars={
            "ansible_host": Value(data="127.0.0.1"),
            "ansible_user": Value(data="nvidia"),
            "ansible_ssh_private_key_file": Value(data=str(tmp_path / "key")),
            "ansible_ssh_common_args": Value(data="-F none"),
        },
    )
    with pytest.raises(AuthenticationError, match="lives on a security key") as caught:
        ssh.connect_ssh(host)
    hint = str(caught.value.hint)
    assert f"ssh-add {tmp_path}/key" in hint
    assert f"ssh -F none -i {tmp_path}/key nvidia@127.0.0.1" in hint


def test_an_rsa_key_of_a_host_has_the_size_that_is_required() -> None:
    key = paramiko.RSAKey.generate(1024)
    known = KnownKeys(accepted=[(key.get_name(), key.asbytes())])
    client = paramiko.SSHClient()
    for bits, refused in ((1024, False), (2048, True)):
        options = SshOptions(address="a", rsa_bits=bits)
        policy = HostKeyPolicy(known, "a", None, options)
        if refused:
            with pytest.raises(HostKeyRefusedError, match="TOO_SMALL"):
                policy.missing_host_key(client, "a", key)
        else:
            policy.missing_host_key(client, "a", key)


@pytest.mark.parametrize("hashed", [True, False])
def test_a_key_is_added_with_a_hashed_name_where_ssh_does_so(
    tmp_path: Path, *, hashed: bool
) -> None:
    key = paramiko.ECDSAKey.generate()
    options = SshOptions(address="a", hash_names=hashed)
    file = tmp_path / "known_hosts"
    HostKeyPolicy(KnownKeys(), "spark-01", file, options).missing_host_key(
        paramiko.SSHClient(), "spark-01", key
    )
    assert file.read_text().startswith("|1|" if hashed else "spark-01 ")


def test_only_algorithms_that_ssh_allows_are_offered() -> None:
    options = SshOptions(address="a", algorithms=(("keys", ("ssh-ed25519", "other")),))
    disabled = list_disabled_algorithms(options)["keys"]
    assert "ssh-ed25519" not in disabled
    assert "rsa-sha2-512" in disabled
    options = SshOptions(address="a", algorithms=(("kex", ("curve25519-sha256",)),))
    assert "curve25519-sha256@libssh.org" not in list_disabled_algorithms(options)["kex"]
    with pytest.raises(UsageError, match="none of rot13 is supported"):
        list_disabled_algorithms(SshOptions(address="a", algorithms=(("ciphers", ("rot13",)),)))


def test_errors_of_small_keys_name_the_size() -> None:
    from sparkfleet.remote import errors  # noqa: PLC0415 - of this test alone

    options = SshOptions(address="a", user="u", port=22, rsa_bits=2048)
    error = errors.build_small_key_error(errors.Target(host="a", options=options))
    assert isinstance(error, HostKeyError)
    assert "fewer than 2048 bits" in error.message


def test_a_usual_key_with_a_passphrase_signs_through_the_agent(
    tmp_path: Path, agent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_usual_identity(agent=True) is None
    (tmp_path / ".ssh").mkdir()
    write_security_key(tmp_path / ".ssh/id_ecdsa_sk")
    key = _write_key(tmp_path / ".ssh/id_ed25519", locked=True)
    assert find_usual_identity(agent=True) is None
    agent.held = (_write_key(tmp_path / "other", locked=False), key)
    assert find_usual_identity(agent=True) is key
    assert find_usual_identity(agent=False) is None


@pytest.fixture
def agent_socket() -> Iterator[Path]:
    """Run OpenSSH's own agent; the path of its socket is short, as the system wants it."""
    if shutil.which("ssh-agent") is None:
        pytest.skip("no ssh-agent on this machine")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.sock"
        said = subprocess.run(
            ["ssh-agent", "-s", "-a", str(path)], capture_output=True, text=True, check=True
        )
        found = re.search(r"SSH_AGENT_PID=(\d+)", said.stdout)
        assert found is not None
        yield path
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(found[1]), signal.SIGTERM)


def _load_key(path: Path, agent_socket: Path) -> paramiko.PKey:
    """Load a key into the agent and leave no file of it."""
    key = _write_key(path, locked=False)
    path.chmod(0o600)
    environment = {**os.environ, "SSH_AUTH_SOCK": str(agent_socket)}
    subprocess.run(["ssh-add", "-q", str(path)], env=environment, check=True)
    path.unlink()
    return key


def _write_host(folder: Path, server: SshServer, config: str) -> Host:
    (folder / "known_hosts").write_text(server.line)
    (folder / "config").write_text(f"Host *\n {config}\n")
    words = f"-F {folder}/config -o UserKnownHostsFile={folder}/known_hosts"
    return Host(
        name="spark-01",
        vars={
            "ansible_host": Value(data="127.0.0.1"),
            "ansible_port": Value(data=server.port),
            "ansible_user": Value(data="nvidia"),
            "ansible_ssh_common_args": Value(data=words),
        },
    )


@pytest.mark.parametrize("only", [False, True], ids=["any key", "a public half"])
def test_a_key_of_the_agent_that_the_configuration_names_logs_in(
    tmp_path: Path, agent_socket: Path, monkeypatch: pytest.MonkeyPatch, *, only: bool
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "no-agent"))
    key = _load_key(tmp_path / "key", agent_socket)
    named = f"IdentityAgent {agent_socket}"
    if only:
        (tmp_path / "key.pub").write_text(f"{key.get_name()} {key.get_base64()} a comment\n")
        named += f"\n IdentitiesOnly yes\n IdentityFile {tmp_path}/key.pub"
    with SshServer(authorized={key.get_base64()}) as server:
        connection = ssh.connect_ssh(_write_host(tmp_path, server, named))
        connection.close()
        assert server.logins == ["nvidia"]


def test_the_agent_of_the_environment_is_not_asked_where_another_is_named(
    tmp_path: Path, agent_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SSH_AUTH_SOCK", str(agent_socket))
    key = _load_key(tmp_path / "key", agent_socket)
    with (
        SshServer(authorized={key.get_base64()}) as server,
        pytest.raises(AuthenticationError, match=r"agent of /none \(IdentityAgent\)"),
    ):
        ssh.connect_ssh(_write_host(tmp_path, server, "IdentityAgent /none"))


def test_a_path_where_no_agent_answers_gives_no_keys(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "none", tmp_path / ("a" * 200)):
        assert open_agent(str(path)).get_keys() == ()


def test_an_agent_that_hangs_up_leaves_the_keys_in_files(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/s")
        listener.listen()
        _write_key(tmp_path / "key", locked=True)
        listener.shutdown(socket.SHUT_RDWR)
        files = [str(tmp_path / "key")]
        chosen, rest = choose_identity(files, agent=True, agent_socket=f"{folder}/s")
        assert (chosen, list(rest)) == (None, files)


def test_hints_name_the_agent_that_is_asked() -> None:
    from sparkfleet.remote import errors  # noqa: PLC0415 - of this test alone

    options = SshOptions(address="a", user="u", port=22, agent_socket="/run/my agent")
    error = errors.build_passphrase_error(errors.Target(host="a", options=options))
    assert error.hint == "load it into the agent: SSH_AUTH_SOCK='/run/my agent' ssh-add"
