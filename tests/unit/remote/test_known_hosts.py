"""known_hosts is read as OpenSSH reads it, and a host key is judged by it."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from sparkfleet.cli.cluster.watching import install_on_head
from sparkfleet.errors import (
    AuthenticationError,
    CommandError,
    HostKeyError,
    InvalidValueError,
    UnreachableError,
)
from sparkfleet.model import Host, Value
from sparkfleet.remote import known_hosts, ssh
from sparkfleet.remote.answers import parse_answer
from sparkfleet.remote.known_hosts import KeyVerdict, check_public_key, matches, read_known_keys
from tests.budget import limit_cpu_time

KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIFLzK16ChUFquoMrhQrxY3c1l6A00NpdPHhtP3R73ZMp"
OTHER = "AAAAC3NzaC1lZDI1NTE5AAAAIBRd6c7ncCj6kcJLAQORNfNyXFx3VedZN891SgnaUomg"


def _judge(folder: Path, text: bytes, name: str, key: str = KEY) -> KeyVerdict:
    path = folder / "known_hosts"
    path.write_bytes(text)
    blob = paramiko.Ed25519Key(data=_decode(key)).asbytes()
    return read_known_keys([path], name).judge("ssh-ed25519", blob)


def _decode(key: str) -> bytes:
    blob = known_hosts._decode_key("ssh-ed25519", key)
    assert blob
    return blob


@pytest.mark.parametrize(
    ("names", "name", "known"),
    [
        ("spark-*,10.0.0.2?", "spark-01", True),
        ("spark-*,10.0.0.2?", "10.0.0.21", True),
        ("spark-*,10.0.0.2?", "10.0.0.2", False),
        ("*.lan,!x.lan", "a.lan", True),
        ("*.lan,!x.lan", "x.lan", False),
        ("!x.lan", "a.lan", False),
        ("Spark-01", "SPARK-01", True),
        ("[10.0.0.1]:2222", "[10.0.0.1]:2222", True),
        ("[10.0.0.*]:2222", "[10.0.0.9]:2222", True),
        ("10.0.0.1", "[10.0.0.1]:2222", False),
        ("|2|what|ever", "10.0.0.1", False),
        ("|1|not base64|=", "10.0.0.1", False),
    ],
)
def test_names_are_patterns(tmp_path: Path, names: str, name: str, known: bool) -> None:
    line = f"{names} ssh-ed25519 {KEY} a comment\n".encode()
    assert (_judge(tmp_path, line, name) is KeyVerdict.KNOWN) is known


def test_a_pattern_that_is_too_long_for_ssh_matches_nothing() -> None:
    assert matches("*" * 1022, "a")
    assert matches("!" + "b" * 1022 + ",a", "a")
    assert not matches("*" * 1023, "a")
    assert not matches("a,b*" + "x" * 1_000_000, "a")


def test_ten_megabytes_of_known_hosts_are_read(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFLzK16ChUFquoMrhQrxY3c1l6A00NpdPHhtP3R73ZMp"
    lines = "".join(f"spark-{at},10.0.0.{at % 255} {key} site\n" for at in range(50_000))
    path.write_text(lines + "x*" * 2_500_000)
    with limit_cpu_time():
        assert len(read_known_keys([path], "spark-01").accepted) == 0
        assert len(read_known_keys([path], "spark-1").accepted) == 1


@pytest.mark.parametrize(
    ("pattern", "like"),
    [
        ("s*-?1", True),
        ("*a?*0*", True),
        ("??????*", True),
        ("*?????????*", False),
        ("*k*p*", False),
    ],
)
def test_a_pattern_fits_as_in_ssh(pattern: str, *, like: bool) -> None:
    assert matches(pattern, "spark-01") is like


def test_a_hashed_name_is_found(tmp_path: Path) -> None:
    hashed = paramiko.HostKeys.hash_host("spark-01")
    line = f"{hashed} ssh-ed25519 {KEY}\n".encode()
    assert _judge(tmp_path, line, "spark-01") is KeyVerdict.KNOWN
    assert _judge(tmp_path, line, "spark-02") is KeyVerdict.UNKNOWN


@pytest.mark.parametrize(
    "line",
    [
        f"@cert-authority * ssh-ed25519 {OTHER} ca",
        f"@cert-authority *.example.com ssh-ed25519 {OTHER}",
        f"@revoked spark-09 ssh-ed25519 {KEY}",
        f"@unheard-of * ssh-ed25519 {OTHER}",
        "@revoked",
        "spark-01",
        "spark-01 ssh-ed25519",
        f"spark-01 ssh-ed25519 {KEY[:-9]}",
        "spark-01 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBROKENLINE",
        "spark-01 ssh-ed25519 ====",
        f"spark-01 ssh-rsa {KEY}",
        "spark-01 1024 35 123456789",
        "\udcff\udcfe spark-01",
        "\0\0",
    ],
)
def test_a_line_that_ssh_passes_over_does_not_matter(tmp_path: Path, line: str) -> None:
    text = f"# a comment\n\n{line}\nspark-01 ssh-ed25519 {KEY}\n".encode(errors="surrogateescape")
    assert _judge(tmp_path, text, "spark-01") is KeyVerdict.KNOWN
    assert _judge(tmp_path, text, "spark-01", OTHER) is KeyVerdict.CHANGED


@pytest.mark.parametrize("order", [1, -1])
def test_a_revoked_key_is_refused_whatever_else_the_file_says(tmp_path: Path, order: int) -> None:
    lines = [f"@revoked * ssh-ed25519 {KEY}", f"spark-01 ssh-ed25519 {KEY}"][::order]
    assert _judge(tmp_path, "\n".join(lines).encode(), "spark-01") is KeyVerdict.REVOKED


def test_of_two_keys_of_one_type_either_is_good(tmp_path: Path) -> None:
    text = f"spark-01 ssh-ed25519 {OTHER}\nspark-01 ssh-ed25519 {KEY}\n".encode()
    assert _judge(tmp_path, text, "spark-01") is KeyVerdict.KNOWN
    assert _judge(tmp_path, text, "spark-01", OTHER) is KeyVerdict.KNOWN


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_file_in_utf_16_is_named(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "known_hosts"
    path.write_bytes(f"\ufeffspark-01 ssh-ed25519 {KEY}\n".encode(encoding))
    known = read_known_keys([path], "spark-01")
    assert (known.accepted, known.remarks) == (
        [],
        [f"{path}:1 is text in UTF-16; save it as UTF-8"],
    )


@pytest.mark.parametrize("device", ["/dev/zero", "pipe"])
def test_a_file_that_never_ends_is_passed_over_and_named(tmp_path: Path, device: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    good = tmp_path / "known_hosts"
    good.write_text(f"spark-01 ssh-ed25519 {KEY}\n")
    known = read_known_keys([tmp_path / device, good], "spark-01")
    assert len(known.accepted) == 1
    [remark] = known.remarks
    assert remark.startswith(f"{tmp_path / device} cannot be read: it is a device")


def test_a_byte_order_mark_is_a_part_of_the_first_name_and_named(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    path.write_text(f"\ufeffspark-01 ssh-ed25519 {KEY}\nspark-02 ssh-ed25519 {KEY}\n")
    known = read_known_keys([path], "spark-01")
    assert (known.accepted, known.remarks) == (
        [],
        [f"{path}:1 begins with a byte-order mark; save it without"],
    )
    assert not read_known_keys([path], "spark-02").remarks


def test_lines_for_the_host_that_do_not_count_are_named(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    path.write_text(f"spark-01 ssh-ed25519 {KEY[:-9]}\n@cert-authority * ssh-ed25519 {OTHER}\n")
    assert read_known_keys([path, tmp_path, tmp_path / "none"], "spark-01").remarks == [
        f"{path}:1 is not a valid line",
        f"{path}:2 names a certificate authority, which sparkfleet ignores",
    ]


class _Server(paramiko.ServerInterface):
    def get_allowed_auths(self, username: str) -> str:
        del username
        return "publickey"


@pytest.fixture
def server() -> Iterator[tuple[int, str]]:
    """Start an SSH server that accepts no login, which a client asks for after the host key."""
    key = paramiko.ECDSAKey.generate()
    listener = socket.create_server(("127.0.0.1", 0))
    transports: list[paramiko.Transport] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            transport = paramiko.Transport(connection)
            transport.add_server_key(key)
            transports.append(transport)
            transport.start_server(event=threading.Event(), server=_Server())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()[1], f"{key.get_name()} {key.get_base64()}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()
    for transport in transports:
        transport.close()
        transport.join()


@pytest.mark.parametrize(
    ("lines", "kind", "expected"),
    [
        (["[127.0.0.*]:* {key}"], AuthenticationError, "accepted none"),
        (["@cert-authority * ssh-ed25519 " + OTHER, "* {key}"], AuthenticationError, "accepted"),
        (["\udcff \udcfe x", "* {key}"], AuthenticationError, "accepted none"),
        (["* ssh-ed25519 " + KEY, "* {key}"], AuthenticationError, "accepted none"),
        (["@revoked * {key}", "* {key}"], HostKeyError, "revokes"),
        (["* ecdsa-sha2-nistp256 AAAA"], HostKeyError, "known_hosts:1 is not a valid line"),
        (["@cert-authority * {key}"], HostKeyError, "certificate authority"),
        ([], HostKeyError, "is not in known_hosts"),
    ],
)
def test_a_host_is_judged_by_the_lines_that_ssh_would_read(
    tmp_path: Path,
    server: tuple[int, str],
    lines: list[str],
    kind: type[Exception],
    expected: str,
) -> None:
    port, key = server
    path = tmp_path / "known_hosts"
    text = "\n".join(line.format(key=key) for line in lines)
    path.write_text(text, errors="surrogateescape")
    private = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()
    )
    (tmp_path / "key").write_bytes(private)
    host = Host(
        name="spark-01",
        vars={
            "ansible_ssh_private_key_file": Value(data=str(tmp_path / "key")),
            "ansible_host": Value(data="127.0.0.1"),
            "ansible_port": Value(data=port),
            "ansible_user": Value(data="somebody"),
            "ansible_ssh_common_args": Value(data=f"-F none -o UserKnownHostsFile={path}"),
        },
    )
    with pytest.raises(kind, match=expected):
        ssh.connect_ssh(host)


def test_an_exception_of_a_library_is_an_error_of_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def explode(*_: object, **__: object) -> None:
        raise ValueError("Incorrect padding")

    monkeypatch.setattr(ssh, "_open_transport", explode)
    host = Host(name="spark-01", vars={"ansible_ssh_common_args": Value(data="-F none")})
    with pytest.raises(UnreachableError, match="Incorrect padding"):
        ssh.connect_ssh(host)


@pytest.mark.parametrize("comment", ["", " watcher of spark-01"])
def test_a_public_key_is_one_line_of_its_type(comment: str) -> None:
    line = f"ssh-ed25519 {KEY}{comment}"
    assert check_public_key(line) == line


@pytest.mark.parametrize(
    "text",
    [
        f"ssh-ed25519 {KEY}\n* ssh-ed25519 {KEY}",
        f"ssh-ed25519 {KEY}\r* ssh-ed25519 {KEY}",
        f"* ssh-ed25519 {KEY}",
        f"@cert-authority * ssh-ed25519 {KEY}",
        f'command="x" ssh-ed25519 {KEY}',
        f" ssh-ed25519 {KEY}",
        f"ssh-rsa {KEY}",
        f"ssh-ed25519 {KEY[:-8]}",
        "ssh-ed25519",
        "",
        None,
        5,
        ["ssh-ed25519", KEY],
    ],
    ids=range(13),
)
def test_a_host_adds_no_lines_but_its_key(text: object) -> None:
    with pytest.raises(InvalidValueError, match="a public key"):
        check_public_key(text)


def test_keys_that_lie_are_an_error_of_their_host() -> None:
    for parser in (install_on_head._parse_key, install_on_head._parse_host_keys):
        for answer in ({}, {"key": "x", "keys": ["x"]}, {"key": 1, "keys": 1}, {"keys": [None]}):
            with pytest.raises(CommandError, match="unknown shape") as caught:
                parse_answer(parser, answer, "spark-02", install_on_head.PROGRAM)
            assert caught.value.host == "spark-02"
